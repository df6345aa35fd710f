"""Redaction: hides personal details in names and ids that go into a prompt, and gives ids stable pseudonyms.

Three steps, always in this order, because another order would undo them: remove invisible characters, hide personal
details, cut to length.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.safe_text import INVISIBLE, LABEL_CHARS, quoted_label, safe_label, without_invisible
from threadline.model.source import is_platform_slug

PSEUDONYM_HEX = 12
TAG_HEX = 6

# What stands in for what is hidden.
_HIDDEN_NUMBER: Final = "(hidden number)"
_HIDDEN_ADDRESS: Final = "(hidden address)"
_HIDDEN_ID: Final = "(hidden id)"

# Platforms whose ids the model never needs; and those whose ids it needs, or which we create ourselves.
REDACTED_PLATFORMS = frozenset({"whatsapp", "signal", "telegram", "email"})
_OPEN_PLATFORMS = frozenset({"discord", "slack", "matrix", "local", "acp", "web"})

# Decimal digits of every script, and the raised, lowered, circled and bracketed ones.
_DIGIT = (
    "\\d\xb2\xb3\xb9\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490\u24ea\u24f5-\u24fd\u24ff"
    "\u2776-\u277e\u2780-\u2788\u278a-\u2792"
)
# Spaces, dashes, dots, slashes, brackets, keycaps and strike-throughs.
_BETWEEN = (
    f"\\s{INVISIBLE}\\-\u2010-\u2015\u2212\ufe58\ufe63\uff0d.\uff0e\u3002\xb7\u2022\u2219\u22c5/\uff0f_~"
    "()\\[\\]\uff08\uff09\uff3b\uff3d\u0300-\u036f\u20d0-\u20ff"
)
_PLUS = "+\uff0b"
_NUMBER = re.compile(
    f"(?:[(\uff08]?[{_PLUS}][{_BETWEEN}]{{0,3}}|[(\uff08])?[{_DIGIT}](?:[{_BETWEEN}]*+[{_DIGIT}])*+[\ufe0f\u20e3]*+"
)
_ONE_DIGIT = re.compile(f"[{_DIGIT}]")
_OPENED, _CLOSED = re.compile("[(\uff08]"), re.compile("[)\uff09]")
_MIN_DIGITS = 7
_MIN_DIGITS_AFTER_PLUS = 6

_MONTH, _DAY, _YEAR = "(?:0?[1-9]|1[0-2])", "(?:0?[1-9]|[12][0-9]|3[01])", "(?:19|20)[0-9]{2}"
_DATE = f"(?:{_YEAR}[-./]{_MONTH}[-./]{_DAY}|{_DAY}[-./]{_MONTH}[-./]{_YEAR}|{_MONTH}[-./]{_DAY}[-./]{_YEAR})"
# Dates, a range of them, and the hour of a time of day that follows.
_DATES = re.compile(f"{_DATE}(?: ?[-\u2013/]? ?{_DATE})?(?: [0-9]{{1,2}})?")

# Both sides are bounded: without bounds the search of a long text would take quadratic time.
_MAIL = re.compile(r"""[^\s@＠<>"(),;:\[\]]{1,64}[@＠][^\s@＠<>"(),;:\[\]]{1,255}""")  # noqa: RUF001
# Shorter ids appear in ordinary names by chance.
_MIN_KNOWN_CHARS = 5
_SHORT_THREAD = re.compile(r"[0-9]{1,6}")

_HEX = f"(?=[0-9]*[a-f])[0-9a-f]{{{PSEUDONYM_HEX}}}"
_HASHED = re.compile(f"(?:user_)?{_HEX}")


def mask_phone_numbers(text: str) -> str:
    """Return `text` with every phone number replaced.

    A phone number is seven digits or more (six after a plus sign) of any script, however spaced, dashed,
    dotted or bracketed. Shorter numbers, and dates such as 2026-11-15, stay. In doubt a number is hidden.
    """
    return _NUMBER.sub(_hide_number, text)


def is_redacted_platform(platform: str) -> bool:
    """Return whether redaction replaces the ids of this platform."""
    return platform in REDACTED_PLATFORMS


class Redaction(msgspec.Struct, frozen=True):
    """How names and ids are shown: unchanged if `secret` is `None`, else without personal details.

    `known_ids` are ids that are hidden inside names as well. Every result is safe text of at most 120 characters.
    """

    secret: bytes | None = None
    known_ids: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.secret is not None:
            _require_secret(self.secret)

    def __repr__(self) -> str:
        return f"Redaction(on={self.secret is not None})"

    def name(self, text: str | None) -> str | None:
        """Return the name as it may be shown; None if nothing of it is left."""
        shown = seen = without_invisible(text or "")
        if self.secret is not None:
            shown = mask_phone_numbers(_MAIL.sub(_HIDDEN_ADDRESS, _without(seen, self.known_ids)))
        says_something = _rest(shown) if shown != seen else shown.strip()
        return shown[:LABEL_CHARS] if says_something else None

    def sender(self, platform: str, sender_id: str | None) -> str | None:
        """Return the sender's id, or `user_<12 hex>` in its place."""
        if not sender_id or self.secret is None or not is_private_id(platform, sender_id):
            return safe_label(sender_id or "") or None
        return sender_pseudonym(platform, sender_id, secret=self.secret)

    def chat(self, platform: str, chat_id: str | None) -> str | None:
        """Return the chat's id, or 12 hex digits in its place."""
        if not chat_id or self.secret is None or not is_private_id(platform, chat_id):
            return safe_label(chat_id or "") or None
        return chat_pseudonym(platform, chat_id, secret=self.secret)

    def thread(self, platform: str, thread_id: str | None) -> str | None:
        """Return the thread's id. A short number identifies nobody and stays; any other id is replaced like a chat's."""
        return self.chat(platform, thread_id) if not _is_short(thread_id) else thread_id

    def tag(self, platform: str, sender_id: str) -> str:
        """Return six hex digits that always belong to this sender and distinguish people of the same name."""
        return _digest(platform, sender_id, self.secret or b"-")[:TAG_HEX]


def make_redaction(*, redact_pii: bool, secret: bytes, known_ids: Iterable[str | None] = ()) -> Redaction:
    """Return the redaction for these settings. Raises `InvalidRequest` if it redacts with an empty secret."""
    if not redact_pii:
        return Redaction()
    return Redaction(secret, frozenset(item for item in known_ids if item and len(item) >= _MIN_KNOWN_CHARS))


def is_private_id(platform: str, identifier: str) -> bool:
    """Return whether redaction replaces this id. The platform decides; on an unknown one, whether it holds a phone number."""
    if is_redacted_platform(platform) or not platform:
        return True
    return platform not in _OPEN_PLATFORMS and mask_phone_numbers(identifier) != identifier


def sender_pseudonym(platform: str, sender_id: str, *, secret: bytes) -> str:
    """Return `user_<12 hex>`: the same for the same sender and secret, and safe from guessing by trying all numbers."""
    return f"user_{_digest(platform, sender_id, _require_secret(secret))}"


def chat_pseudonym(platform: str, chat_id: str, *, secret: bytes) -> str:
    """Return 12 hex digits for the chat. A `platform:` before its id stays."""
    prefix = f"{platform}:"
    bare = chat_id.removeprefix(prefix)
    return f"{prefix if bare != chat_id else ''}{_digest(platform, bare, _require_secret(secret))}"


def resolve_target(target: str, candidates: Iterable[str], *, secret: bytes) -> str:
    """Return the real target of a hashed one.

    `candidates` are real targets (`platform:chat_id` or `platform:chat_id:thread_id`). A target that is not
    in hashed form is returned unchanged. A hash that matches no candidate, or several, raises `InvalidRequest`.
    """
    real = tuple(candidates)
    if target in real or not _is_hashed_target(target):
        return target
    spelled: dict[str, set[str]] = {}
    for candidate in real:
        for spelling, meaning in _spellings(candidate, _require_secret(secret)):
            spelled.setdefault(spelling, set()).add(meaning)
    found = spelled.get(target)
    if not found:
        head, _, thread = target.rpartition(":")
        found = {f"{meaning}:{thread}" for meaning in spelled.get(head, ()) if _is_short(thread)}
    if len(found) != 1:
        raise InvalidRequest(
            f"no chat is known as {quoted_label(target)}; use a target that the context of this conversation lists"
        )
    return found.pop()


def _spellings(candidate: str, secret: bytes) -> Iterator[tuple[str, str]]:
    place, separator, chat = candidate.partition(":")
    if not separator:
        return
    platform = place.partition("@")[0]
    bare, separator, thread = chat.rpartition(":")
    for name, meaning in ((chat, candidate), (bare, f"{place}:{bare}")):
        if not name:
            continue
        hashed = _digest(platform, name, secret)
        yield from ((form, meaning) for form in (hashed, f"user_{hashed}"))
        yield from ((f"{place}:{form}", meaning) for form in (hashed, f"user_{hashed}"))
    if separator:
        shown = thread if _is_short(thread) else _digest(platform, thread, secret)
        yield f"{place}:{_digest(platform, bare, secret)}:{shown}", candidate


def _is_hashed_target(target: str) -> bool:
    place, separator, rest = target.partition(":")
    if not separator:
        return _HASHED.fullmatch(target) is not None
    platform = place.partition("@")[0]
    if not is_platform_slug(platform) or platform in _OPEN_PLATFORMS:
        return _HASHED.fullmatch(place) is not None
    return any(_HASHED.fullmatch(part) is not None for part in (rest, *rest.split(":")))


def _digest(platform: str, identifier: str, secret: bytes) -> str:
    message = f"{platform}\0{identifier}".encode("utf-8", "surrogatepass")
    digest = hmac.new(secret, message, hashlib.sha256).hexdigest()
    # Never only digits: that could be a real chat id or a phone number.
    windows = (digest[at : at + PSEUDONYM_HEX] for at in range(len(digest) - PSEUDONYM_HEX))
    return next((window for window in windows if not window.isdigit()), "f" * PSEUDONYM_HEX)


def _require_secret(secret: bytes) -> bytes:
    if not secret:
        raise InvalidRequest(
            "redaction needs the installation's secret: without it, numbers could be found by trying all"
        )
    return secret


def _without(text: str, known_ids: frozenset[str]) -> str:
    if not known_ids:
        return text
    longest_first = sorted(known_ids, key=lambda item: (-len(item), item))
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", _HIDDEN_ID, text)


def _rest(shown: str) -> str:
    for hidden in (_HIDDEN_NUMBER, _HIDDEN_ADDRESS, _HIDDEN_ID):
        shown = shown.replace(hidden, "")
    return shown.strip(" \xa0\u3000.,;:/()[]<>-+")


def _is_short(thread_id: str | None) -> bool:
    return thread_id is not None and _SHORT_THREAD.fullmatch(thread_id) is not None


def _hide_number(match: re.Match[str]) -> str:
    found = match.group()
    with_plus = found.lstrip("(\uff08")[0] in _PLUS
    digits = len(_ONE_DIGIT.findall(found))
    if digits < (_MIN_DIGITS_AFTER_PLUS if with_plus else _MIN_DIGITS):
        return found
    opened = found[0] in "(\uff08" and len(_OPENED.findall(found)) > len(_CLOSED.findall(found))
    if not with_plus and _DATES.fullmatch(found[1:] if opened else found):
        return found
    return f"{found[0] if opened else ''}{_HIDDEN_NUMBER}"
