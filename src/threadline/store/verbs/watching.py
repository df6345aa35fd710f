"""Verbs for people who look at a conversation while it goes on, and at the list of theirs."""

from __future__ import annotations

from collections.abc import Sequence

from threadline.clock import to_instant
from threadline.errors import InvalidRequest
from threadline.ids import new_session_id
from threadline.model.address import address_of
from threadline.model.delivery import target_of
from threadline.model.message import MessageRef
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.engine.database import Plan, Row, read, write
from threadline.store.rows import Page, check_limit
from threadline.store.verbs.base import VerbsBase
from threadline.store.work import change_feed
from threadline.store.work.change_feed import Earlier, Listed, Looking, Seen, TurnPlace


class WatchingVerbs(VerbsBase):
    """What a page asks of the store. A conversation is named by where its person writes; nobody is shown another's."""

    def look(
        self,
        source: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        mark: str | None = None,
        seq: int = 0,
        turn: TurnPlace | None = None,
        told: TurnPlace | None = None,
        limit: int = 50,
    ) -> Plan[Seen | None]:
        """Where the conversation stands; `None` where there is none, or `session_id` is not one of its sessions.

        `mark`, `seq` and `turn` are what was seen before: then what is new. Of the turn `told` no events are read.
        """
        check_limit(limit)
        wanted = self._looking(source, agent, session_id, limit=limit, mark=mark, seq=seq, turn=turn, told=told)
        return (yield from read(change_feed.look, wanted))

    def earlier_messages(
        self,
        source: SessionSource,
        before: str,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
    ) -> Plan[Earlier]:
        """The messages before one that the conversation shows. `UnknownSession`, `UnknownMessage`."""
        check_limit(limit)
        wanted = self._looking(source, agent, session_id, limit=limit)
        return (yield from read(change_feed.earlier, wanted, MessageRef.parse(before)))

    def find_chat(
        self, source: SessionSource, *, agent: str | None = None, session_id: str | None = None
    ) -> Plan[Listed]:
        """The session of the conversation, current or named; `UnknownSession` where there is none, or not one of theirs."""
        entry = yield from read(change_feed.find, self._looking(source, agent, session_id))
        return (yield from read(change_feed.labelled, [entry]))[0]

    def glance(self, places: Sequence[tuple[SessionSource, str | None]]) -> Plan[list[Row | None]]:
        """For each conversation what changes with whatever happens there; `None` where there is none."""
        wanted = [
            (
                target_of(source).ordering_key,
                address_of(source, self._settings.scope, agent or self._settings.agent).digest,
            )
            for source, agent in places
        ]
        found = yield from read(change_feed.glance, wanted)
        return [found.get(digest) for _, digest in wanted]

    def chats_of(self, person: str, platform: str, *, limit: int = 50, cursor: str | None = None) -> Plan[Page[Listed]]:
        """A page of the sessions of a person on a platform, ended ones included, the most recently updated first."""
        return (yield from read(change_feed.chats_of, person, platform, limit=limit, cursor=cursor))

    def fork_chat(
        self,
        source: SessionSource,
        upto: str,
        into: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
    ) -> Plan[SessionEntry]:
        """A new conversation of the same person that goes on from a message; where `into` has one already, that one.

        `UnknownSession` where there is nothing of theirs to go on from, `UnknownMessage` where it does not show the message.
        """
        if person_of(source) != person_of(into):
            raise InvalidRequest("a conversation is forked by whose it is, for themselves")
        found = yield from read(change_feed.find, self._looking(source, agent, session_id))
        now = self._settings.clock.now()
        wanted = change_feed.Forking(
            session_id=found.session_id,
            upto=MessageRef.parse(upto),
            source=into,
            address=address_of(into, self._settings.scope, agent or self._settings.agent),
            new_id=new_session_id(now),
            at=to_instant(now),
        )
        return (yield from write(change_feed.fork, wanted))

    def exchanges_since(self, session_id: str, message: str) -> Plan[int]:
        """How many exchanges `/undo` takes back to take this user message along; `UnknownMessage` where it is not shown."""
        return (yield from read(change_feed.exchanges_since, session_id, MessageRef.parse(message)))

    def was_heard(self, platform: str, account: str, dedupe_key: str) -> Plan[bool]:
        """Whether an event of that key has come in."""
        return (yield from read(change_feed.was_heard, platform, account, dedupe_key))

    def _looking(
        self,
        source: SessionSource,
        agent: str | None,
        session_id: str | None,
        *,
        limit: int = 50,
        mark: str | None = None,
        seq: int = 0,
        turn: TurnPlace | None = None,
        told: TurnPlace | None = None,
    ) -> Looking:
        person, chat_id = person_of(source), source.chat_id
        if person is None or chat_id is None:
            raise InvalidRequest("only a conversation of somebody's own can be looked at")
        return Looking(
            person=person,
            chat_id=chat_id,
            lane=target_of(source).ordering_key,
            address=address_of(source, self._settings.scope, agent or self._settings.agent),
            at=self._now(),
            session_id=session_id,
            limit=limit,
            mark=mark,
            seq=seq,
            turn=turn,
            told=told,
        )
