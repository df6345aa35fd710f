"""Compute which conversation a message belongs to, from its source, the scope settings and the agent.

A conversation is what an address names; over time it has many sessions, of which one is current.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import msgspec

from threadline.model.source import MAIN_ACCOUNT, ChatType, SessionSource

ID_BYTES_KEPT = 200
_CUT_HASH_HEX = 16
_CACHE_SIZE = 4096

# Control characters, line separators, the `%` and `:` of a key, and halves of surrogate pairs.
_UNSAFE = re.compile("[%:\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSAFE_IN_ACCOUNT = re.compile("[%:@\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class SessionScope(msgspec.Struct, frozen=True):
    """Settings that decide who shares a conversation. By default each group member has their own, and a thread has one for all.

    In a thread, members have their own only if both settings are on.
    """

    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False


class SessionAddress(msgspec.Struct, frozen=True):
    """The identity of a conversation: two messages belong to the same one exactly if their addresses are equal.

    Fields that do not tell conversations apart are `None`, such as the sender in a DM with a known chat id. `agent` is the name of
    the configured agent that answers.
    """

    agent: str
    platform: str
    account: str
    chat_type: ChatType
    chat: str | None = None
    thread: str | None = None
    sender: str | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether more than one person may write in this conversation."""
        return self.chat_type != "dm" and self.sender is None

    @property
    def key(self) -> str:
        """Return a readable name. Fields that are `None` are left out, so it is not unique: the store compares `digest`."""
        parts = ["agent", _escape_and_cut(self.agent), account_name(self.platform, self.account), self.chat_type]
        tail = (self.sender, self.thread) if self.chat_type == "dm" else (self.thread, self.sender)
        parts += [_escape_and_cut(part) for part in (self.chat, *tail) if part is not None]
        return ":".join(parts)

    @property
    def digest(self) -> bytes:
        """Return a 16-byte hash of the address."""
        return _digest(self)


def address_of(source: SessionSource, scope: SessionScope | None = None, agent: str = "main") -> SessionAddress:
    """Return the address of the conversation of a message from `source`. Empty ids count as unknown."""
    scope = scope or SessionScope()
    chat, thread, sender = source.chat_id or None, source.thread_id or None, source.sender
    if source.chat_type == "dm":
        by_sender = chat is None
    else:
        by_sender = scope.group_sessions_per_user and (thread is None or scope.thread_sessions_per_user)
    return SessionAddress(
        agent, source.platform, source.account, source.chat_type, chat, thread, sender if by_sender else None
    )


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    *,
    scope: SessionScope | None = None,
    agent: str = "main",
) -> str:
    """Return the readable name of the conversation of a message from `source`. A `scope` replaces both settings."""
    return address_of(source, scope or SessionScope(group_sessions_per_user, thread_sessions_per_user), agent).key


def account_name(platform: str, account: str) -> str:
    """Return `telegram` for the main account, `telegram@work` for another."""
    return platform if account == MAIN_ACCOUNT else f"{platform}@{_escape_and_cut(account, _UNSAFE_IN_ACCOUNT)}"


@lru_cache(maxsize=_CACHE_SIZE)
def qualified_id(platform: str, account: str, identifier: str) -> str:
    """Return a chat's or person's id, unique over all platforms and accounts: readable, on one line, of bounded length."""
    return f"{account_name(platform, account)}:{_escape_and_cut(identifier)}"


def dm_of_thread(address: SessionAddress) -> SessionAddress | None:
    """Return the address of the DM that contains a DM thread; None for any other address."""
    if address.chat_type != "dm" or address.thread is None or address.chat is None:
        return None
    return SessionAddress(address.agent, address.platform, address.account, "dm", address.chat)


# The same few addresses recur, and each message needs its digest several times.
@lru_cache(maxsize=_CACHE_SIZE)
def _digest(address: SessionAddress) -> bytes:
    parts = msgspec.structs.astuple(address)
    canonical = "".join("-;" if part is None else f"{len(part)}:{part};" for part in parts)
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _escape_and_cut(text: str, unsafe: re.Pattern[str] = _UNSAFE) -> str:
    escaped = unsafe.sub(_percent, text)
    raw = escaped.encode()
    if len(raw) <= ID_BYTES_KEPT:
        return escaped
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_CUT_HASH_HEX // 2)
    return f"{raw[:ID_BYTES_KEPT].decode('utf-8', 'ignore')}~{digest.hexdigest()}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass"))
