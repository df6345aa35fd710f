"""Verbs that take things away."""

from __future__ import annotations

from datetime import datetime, timedelta

from threadline.errors import InvalidRequest
from threadline.model.message import MessageRef
from threadline.model.source import SessionSource
from threadline.store.conversations import adoptions, id_changes
from threadline.store.engine.database import EngineStep, Plan, Progress, read, write
from threadline.store.people import removal
from threadline.store.verbs.arguments import (
    moment_before,
    person_named,
)
from threadline.store.verbs.base import VerbsBase

_PRUNE_STEP = 50


class RemovalVerbs(VerbsBase):
    """Redacting, deleting, pruning and erasing."""

    def redact(self, message: MessageRef | str) -> Plan[bool]:
        """Removes what a message says, in every session that shows it; role and time stay. False: it was done before."""
        return (yield from write(removal.redact, self._now(), MessageRef.parse(message)))

    def delete_session(self, session_id: str) -> Plan[None]:
        """Drops a session. Messages that no other session shows are collected; forks keep what they show."""
        yield from write(removal.delete_session, session_id)
        yield from self.collect()

    def prune(
        self,
        older_than: timedelta | datetime,
        *,
        ended_only: bool = False,
        platform: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Plan[int]:
        """Deletes sessions last updated longer ago than `older_than` (or before that moment), oldest first; how many."""
        before = moment_before(self._settings.clock.now(), older_than)
        wanted = removal.Pruning(before=before, ended_only=ended_only, platform=platform)
        total = yield from read(removal.prunable, wanted)
        if dry_run:
            return total
        done = 0
        while step := (yield from write(removal.prune_some, wanted, _PRUNE_STEP)):
            done += step
            if progress is not None:
                progress(done, max(done, total))
            yield from self.collect()
        return done

    def collect(self) -> Plan[int]:
        """Removes messages of deleted sessions that nothing shows any more, in short steps; how many rows went."""
        done = 0
        while step := (yield from write(removal.collect_some)):
            done += step
        return done

    def erase_person(self, person: SessionSource | str) -> Plan[int]:
        """Removes all that a person wrote anywhere, the agent's replies in sessions that were theirs alone, and their traces.

        Afterwards the database's files no longer contain their words. Returns how many things went. `StoreUnavailable`: somebody
        kept the files from being rewritten; once it is run again, it is done.
        """
        name = person_named(person)
        if name is None:
            raise InvalidRequest("say whose words to erase: a name such as telegram:7")
        if (yield from read(adoptions.waiting)):
            raise InvalidRequest(
                "transcripts of an older folder are still to be taken in, and may hold their words: "
                "run `threadline compat adopt FOLDER`, then erase"
            )
        done = 0
        # The name itself last: as long as it is there, one that breaks off can be begun again.
        for known_as in (*reversed((yield from read(id_changes.other_names, name))), name):
            done += yield from self._erase(known_as)
        yield from self.collect()
        yield EngineStep(lambda database: database.scrub())
        return done

    def _erase(self, name: str) -> Plan[int]:
        done = 0
        while step := (yield from write(removal.erase_some, self._now(), name)):
            done += step
        for walk in (removal.unname_turns, removal.forget_traces):
            after: int | None = 0
            while after is not None:
                after = yield from write(walk, name, after)
        return done
