"""Verbs at the gateway's door: taking in with a greeting, edits, deletions, and what commands ask and do."""

from __future__ import annotations

from collections.abc import Sequence

from threadline.clock import Instant, to_instant
from threadline.ids import new_session_id
from threadline.model.access import Role
from threadline.model.session import SessionEntry
from threadline.model.turn import PendingMessage
from threadline.store.conversations import resume, sessions
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.base import VerbsBase
from threadline.store.work import approvals, inbox, message_changes, outbox, turn_end, turns


class ReceptionVerbs(VerbsBase):
    """What a gateway does with what people send besides answering it."""

    def receive(self, wanted: inbox.Admission, greeting: inbox.Greeting) -> Plan[inbox.Received]:
        """Takes an event in, once, and greets its sender where that is due."""
        received = yield from write(inbox.accept_and_greet, wanted, greeting)
        self._grown()
        return received

    def receive_and_claim(
        self, wanted: inbox.Admission, greeting: inbox.Greeting, claim: turn_end.Claim
    ) -> Plan[tuple[inbox.Received, list[turn_end.Claimed]]]:
        """Takes an event in, once, and begins its turn where nothing else is to be done there: one commit for both."""
        begun = yield from write(turns.accept_and_claim, claim, wanted, greeting)
        self._grown()
        return begun

    def knows_chat(self, chat: str | None, person: str | None) -> Plan[bool]:
        """Whether any conversation is held in that group, or is that person's."""
        return (yield from read(sessions.is_known_chat, chat, person))

    def change_message(self, wanted: message_changes.Changing) -> Plan[message_changes.Change]:
        """Carries an edit or a deletion out, once. What was never heard here costs no write."""
        foreseen = yield from read(message_changes.foresee, wanted)
        return foreseen or (yield from write(message_changes.change, wanted))

    def find_words(
        self, platform: str, account: str, dedupe_key: str, message_id: str
    ) -> Plan[tuple[str, tuple[str, ...]] | None]:
        """The text and the files' handles of a message that came in under that key; `None`: nobody knows."""
        return (yield from read(message_changes.find_words, platform, account, dedupe_key, message_id))

    def withdraw_again(self, asked: PendingMessage, session_pk: int) -> Plan[bool]:
        """Carries out a deletion that was postponed; False: it must wait longer."""
        return (yield from write(message_changes.withdraw_again, self._now(), asked, session_pk))

    def answer_control(
        self,
        waiting: PendingMessage,
        replies: Sequence[outbox.NewDelivery],
        *,
        dropping: message_changes.Dropping | None = None,
        deciding: approvals.Deciding | None = None,
    ) -> Plan[bool]:
        """A control command was carried out: its fate, its answer, and the one thing that it does, together."""
        return (
            yield from write(
                message_changes.answer_control, self._now(), waiting, replies, dropping=dropping, deciding=deciding
            )
        )

    def start_afresh(self, session_id: str) -> Plan[SessionEntry]:
        """A fresh session for the conversation, which takes along what waits."""
        at, new_id = self._made()
        return (yield from write(resume.start_new, at, session_id, new_id=new_id))

    def resume_session(self, session_id: str, wanted: str, *, owners: str | None = None) -> Plan[SessionEntry]:
        """An earlier session goes on with what waits in this one; `UnknownSession` or `NotYours`: nothing was changed.

        `owners`: an owner asks, and this person is an owner too: a copy of a session of theirs goes on.
        """
        at, new_id = self._made()
        return (yield from write(resume.resume, at, session_id, wanted, owners=owners, new_id=new_id))

    def go_on_in_copy(self, session_id: str) -> Plan[SessionEntry]:
        """A copy of the session goes on with what waits in it."""
        at, new_id = self._made()
        return (yield from write(resume.continue_in_fork, at, session_id, new_id=new_id))

    def session_before(self, session_id: str) -> Plan[str | None]:
        """The session that was current at the same address before this one."""
        return (yield from read(resume.previous_session, session_id))

    def people_of_turn(self, session_id: str) -> Plan[list[str | None]]:
        """Whose messages the turn that runs in a session answers."""
        return (yield from read(turns.people_of_running, session_id))

    def roles_of_question(self, session_id: str) -> Plan[list[Role]]:
        """The roles of those whose messages a session ends with."""
        return (yield from read(turns.roles_of_unanswered, session_id))

    def _made(self) -> tuple[Instant, str]:
        now = self._settings.clock.now()
        return to_instant(now), new_session_id(now)
