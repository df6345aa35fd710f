"""Verbs of the watcher: what has gone stale ends by itself, and its agent sees it once more."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadline.model.message import Message
from threadline.model.policy import resolve_zone
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.base import VerbsBase
from threadline.store.work import expiry


class ExpiryVerbs(VerbsBase):
    """What a gateway does with conversations that nobody goes on with."""

    def expire_some(self, platform: str, chat_type: str) -> Plan[expiry.Watched]:
        """A bounded step towards the end of all stale sessions of a platform and chat type; nothing without a policy."""
        settings = self._settings
        policy = settings.policies.policy_for(platform, chat_type)
        if policy.mode == "none":
            return expiry.Watched()
        wanted = expiry.Watch(
            platform=platform,
            chat_type=chat_type,
            policy=policy,
            zone=resolve_zone(policy, installation=settings.zone),
            at=self._now(),
        )
        if settings.is_busy is not None:
            # Asked outside of any transaction: a vote may be slow, and may ask the store itself.
            stale = yield from read(expiry.find_stale, wanted)
            agreed = frozenset(session_pk for session_pk, key in stale if not settings.is_busy(key))
            wanted = msgspec.structs.replace(wanted, agreed=agreed)
        return (yield from write(expiry.expire_some, wanted))

    def claim_flush(
        self, platforms: Sequence[str], *, owner: str, lease: int, held: Sequence[expiry.Flush] = ()
    ) -> Plan[expiry.Flush | None]:
        """A flush to carry out, or `None`. Those in `held` are kept: nobody is given what they are still at."""
        return (yield from write(expiry.claim_flush, self._now(), platforms, owner=owner, lease=lease, held=held))

    def flush_history(self, flush: expiry.Flush) -> Plan[list[Message]]:
        """What a flush covers, as the session shows it."""
        return (yield from read(expiry.read_flush, flush))

    def renew_flush(self, flush: expiry.Flush, *, lease: int) -> Plan[bool]:
        """Keeps a flush with its holder; False where it is another's."""
        return (yield from write(expiry.renew_flush, self._now(), flush, lease=lease))

    def finish_flush(self, flush: expiry.Flush) -> Plan[bool]:
        """The agent has seen it; False where it is another's."""
        return (yield from write(expiry.finish_flush, self._now(), flush))

    def drop_flush(self, flush: expiry.Flush) -> Plan[bool]:
        """Nobody is to see it; False where it is another's."""
        return (yield from write(expiry.discard_flush, self._now(), flush))

    def flush_failed(self, flush: expiry.Flush) -> Plan[bool]:
        """It is tried again later; True where it was given up."""
        return (yield from write(expiry.fail_flush, self._now(), flush))

    def release_flush(self, flush: expiry.Flush) -> Plan[None]:
        """Gives a flush back; it has cost no attempt."""
        yield from write(expiry.release_flush, self._now(), flush)
