"""The store as a running gateway sees it: all verbs of a session store, and those of admission, turns and deliveries."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from threadline.errors import StoreUnavailable
from threadline.model.address import SessionScope
from threadline.model.policy import ResetPolicies, checked_zone
from threadline.store.engine.database import Database, Plan, drive, drive_async
from threadline.store.facade import AsyncSessionStore
from threadline.store.fencing import Fenced
from threadline.store.leases import Held, StillHeld
from threadline.store.verbs import StoreSettings
from threadline.store.verbs.gateway import GatewayVerbs
from threadline.store.work.outbox import Delivery

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    verb: Callable[Concatenate[GatewayVerbs, P], Plan[T]],
) -> Callable[Concatenate[GatewayStore, P], Coroutine[Any, Any, T]]:
    async def carried_out(self: GatewayStore, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return await drive_async(self._database, verb(self.verbs, *args, **options))
        except StoreUnavailable:
            self._missed["unavailable"] += 1
            raise

    functools.update_wrapper(carried_out, verb)
    return carried_out


class GatewayStore(AsyncSessionStore):
    """An awaited store with the verbs of a gateway."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        super().__init__(database, settings)
        self.clock = settings.clock
        self._missed: Counter[str] = Counter()
        self._decide_by(settings)

    @property
    def unavailable(self) -> int:
        """How often a verb of the gateway did not get an answer."""
        return self._missed["unavailable"]

    def reconfigure(self, *, policies: ResetPolicies, scope: SessionScope, timezone: str) -> None:
        """From now on the store decides by these. What is under way was decided before."""
        zone = checked_zone(timezone)
        self._decide_by(msgspec.structs.replace(self._settings, policies=policies, scope=scope, zone=zone))

    def _decide_by(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._verbs = self.verbs = GatewayVerbs(settings, grown=self._upkeep.nudge)
        self.resolve_of = self.verbs.resolve_of

    def under(self, held: Held) -> GatewayStore:
        """The same store for who carries a turn out: a write is `LeaseLost`, and writes nothing, once the turn is another's."""
        fenced = copy.copy(self)
        fenced._database = cast("Database", Fenced(self._database, held))  # noqa: SLF001 - one of our own
        return fenced

    def renew_leases_blocking(
        self, owner: str, held: Sequence[Held], flying: Sequence[Delivery], *, lease: int
    ) -> list[StillHeld]:
        """Like `renew_leases`, for a thread of its own: an event loop that is stuck must not cost the leases."""
        try:
            return drive(self._database, self.verbs.renew_leases(owner, held, flying, lease=lease))
        except StoreUnavailable:
            self._missed["unavailable"] += 1
            raise

    accept = _awaited(GatewayVerbs.accept)
    refuse = _awaited(GatewayVerbs.refuse)
    park_event = _awaited(GatewayVerbs.park_event)
    move = _awaited(GatewayVerbs.move)
    claim_turns = _awaited(GatewayVerbs.claim_turns)
    declare_replay = _awaited(GatewayVerbs.declare_replay)
    keep_context = _awaited(GatewayVerbs.keep_context)
    take_more = _awaited(GatewayVerbs.take_more)
    remember = _awaited(GatewayVerbs.remember)
    remembered = _awaited(GatewayVerbs.remembered)
    ask = _awaited(GatewayVerbs.ask)
    open_ask = _awaited(GatewayVerbs.open_ask)
    ask_in_chat = _awaited(GatewayVerbs.ask_in_chat)
    expire_asks = _awaited(GatewayVerbs.expire_asks)
    journal = _awaited(GatewayVerbs.journal)
    tell_progress = _awaited(GatewayVerbs.tell_progress)
    forget_journal = _awaited(GatewayVerbs.forget_journal)
    finish_turn = _awaited(GatewayVerbs.finish_turn)
    release_turn = _awaited(GatewayVerbs.release_turn)
    rerun_turns = _awaited(GatewayVerbs.rerun_turns)
    take_over_turns = _awaited(GatewayVerbs.take_over_turns)
    void_leases = _awaited(GatewayVerbs.void_leases)
    take_name = _awaited(GatewayVerbs.take_name)
    release_name = _awaited(GatewayVerbs.release_name)
    held_names = _awaited(GatewayVerbs.held_names)
    ask_to_stop = _awaited(GatewayVerbs.ask_to_stop)
    enqueue = _awaited(GatewayVerbs.enqueue)
    claim_deliveries = _awaited(GatewayVerbs.claim_deliveries)
    delivery_sent = _awaited(GatewayVerbs.delivery_sent)
    forget_message = _awaited(GatewayVerbs.forget_message)
    delivery_failed = _awaited(GatewayVerbs.delivery_failed)
    open_stream = _awaited(GatewayVerbs.open_stream)
    stream_not_begun = _awaited(GatewayVerbs.stream_not_begun)
    keep_stream_id = _awaited(GatewayVerbs.keep_stream_id)
    recover_deliveries = _awaited(GatewayVerbs.recover_deliveries)
    list_deliveries = _awaited(GatewayVerbs.list_deliveries)
    is_pending_on = _awaited(GatewayVerbs.is_pending_on)
    is_pending_at = _awaited(GatewayVerbs.is_pending_at)
    suggest_title = _awaited(GatewayVerbs.suggest_title)
    list_messages = _awaited(GatewayVerbs.list_messages)
    load = _awaited(GatewayVerbs.load)
    sound_alarm = _awaited(GatewayVerbs.sound_alarm)
    tell_alarm = _awaited(GatewayVerbs.tell_alarm)
    clear_alarm = _awaited(GatewayVerbs.clear_alarm)
    untell_alarms = _awaited(GatewayVerbs.untell_alarms)
    know_alarms = _awaited(GatewayVerbs.know_alarms)
    forget_unknown_alarm = _awaited(GatewayVerbs.forget_unknown_alarm)
    open_alarms = _awaited(GatewayVerbs.open_alarms)
    alarm_states = _awaited(GatewayVerbs.alarm_states)
    owners_chat = _awaited(GatewayVerbs.owners_chat)
    message_story = _awaited(GatewayVerbs.message_story)
    retry_delivery = _awaited(GatewayVerbs.retry_delivery)
    drop_delivery = _awaited(GatewayVerbs.drop_delivery)
    waiting_messages = _awaited(GatewayVerbs.waiting_messages)
    unhandled_controls = _awaited(GatewayVerbs.unhandled_controls)
    role_of = _awaited(GatewayVerbs.role_of)
    set_role = _awaited(GatewayVerbs.set_role)
    forget_role = _awaited(GatewayVerbs.forget_role)
    list_people = _awaited(GatewayVerbs.list_people)
    request_pairing = _awaited(GatewayVerbs.request_pairing)
    list_pairings = _awaited(GatewayVerbs.list_pairings)
    pairing_locked_until = _awaited(GatewayVerbs.pairing_locked_until)
    approve_pairing = _awaited(GatewayVerbs.approve_pairing)
    revoke = _awaited(GatewayVerbs.revoke)
    installation_secret = _awaited(GatewayVerbs.installation_secret)
    make_web_invite = _awaited(GatewayVerbs.make_web_invite)
    redeem_web_invite = _awaited(GatewayVerbs.redeem_web_invite)
    make_web_login = _awaited(GatewayVerbs.make_web_login)
    web_login_of = _awaited(GatewayVerbs.web_login_of)
    forget_web_login = _awaited(GatewayVerbs.forget_web_login)
    end_web_logins = _awaited(GatewayVerbs.end_web_logins)
    list_web_people = _awaited(GatewayVerbs.list_web_people)
    revoke_web_person = _awaited(GatewayVerbs.revoke_web_person)
    receive = _awaited(GatewayVerbs.receive)
    receive_and_claim = _awaited(GatewayVerbs.receive_and_claim)
    knows_chat = _awaited(GatewayVerbs.knows_chat)
    find_words = _awaited(GatewayVerbs.find_words)
    change_message = _awaited(GatewayVerbs.change_message)
    withdraw_again = _awaited(GatewayVerbs.withdraw_again)
    answer_control = _awaited(GatewayVerbs.answer_control)
    start_afresh = _awaited(GatewayVerbs.start_afresh)
    resume_session = _awaited(GatewayVerbs.resume_session)
    go_on_in_copy = _awaited(GatewayVerbs.go_on_in_copy)
    session_before = _awaited(GatewayVerbs.session_before)
    people_of_turn = _awaited(GatewayVerbs.people_of_turn)
    roles_of_question = _awaited(GatewayVerbs.roles_of_question)
    zone_of_person = _awaited(GatewayVerbs.zone_of_person)
    set_zone_of_person = _awaited(GatewayVerbs.set_zone_of_person)
    choose_model = _awaited(GatewayVerbs.choose_model)
    homes = _awaited(GatewayVerbs.homes)
    set_home = _awaited(GatewayVerbs.set_home)
    drop_home = _awaited(GatewayVerbs.drop_home)
    find_place = _awaited(GatewayVerbs.find_place)
    hand_over = _awaited(GatewayVerbs.hand_over)
    expire_some = _awaited(GatewayVerbs.expire_some)
    claim_flush = _awaited(GatewayVerbs.claim_flush)
    flush_history = _awaited(GatewayVerbs.flush_history)
    renew_flush = _awaited(GatewayVerbs.renew_flush)
    finish_flush = _awaited(GatewayVerbs.finish_flush)
    drop_flush = _awaited(GatewayVerbs.drop_flush)
    flush_failed = _awaited(GatewayVerbs.flush_failed)
    release_flush = _awaited(GatewayVerbs.release_flush)
    look = _awaited(GatewayVerbs.look)
    earlier_messages = _awaited(GatewayVerbs.earlier_messages)
    find_chat = _awaited(GatewayVerbs.find_chat)
    glance = _awaited(GatewayVerbs.glance)
    chats_of = _awaited(GatewayVerbs.chats_of)
    fork_chat = _awaited(GatewayVerbs.fork_chat)
    exchanges_since = _awaited(GatewayVerbs.exchanges_since)
    was_heard = _awaited(GatewayVerbs.was_heard)
    create_editor_session = _awaited(GatewayVerbs.create_editor_session)
    find_editor_session = _awaited(GatewayVerbs.find_editor_session)
    replay_of = _awaited(GatewayVerbs.replay_of)
    replay_page = _awaited(GatewayVerbs.replay_page)
    replay_body = _awaited(GatewayVerbs.replay_body)
    owners_sessions = _awaited(GatewayVerbs.owners_sessions)
    owners_hits = _awaited(GatewayVerbs.owners_hits)
    find_owners_title = _awaited(GatewayVerbs.find_owners_title)
    file_body = _awaited(GatewayVerbs.file_body)
    keep_file_of_turn = _awaited(GatewayVerbs.keep_file_of_turn)
    drop_unsent_files = _awaited(GatewayVerbs.drop_unsent_files)
