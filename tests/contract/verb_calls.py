"""A call of every verb of a gateway's store, with arguments that a busy store has."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec
from tests.contract.busy_gateway import (
    AWAY,
    CONVERSATION,
    COOKIE,
    EDITOR,
    Busy,
    admission,
    claim_request,
    deletion,
    event,
    notice,
    question,
    stream_of,
)
from tests.contract.gateways import over
from tests.contract.watching import LEASE

from threadline.model.client_sources import editor_source, web_source
from threadline.model.delivery import Park
from threadline.model.inbound import IdChange, Unreadable
from threadline.model.session import SessionEntry
from threadline.store.conversations.editor_sessions import EditorSessionChanges
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import digest_of
from threadline.store.work.expiry import ExpiryStep
from threadline.store.work.inbox import Greeting, RefuseRequest
from threadline.store.work.owner_alerts import OwnerAlert
from threadline.testing import dm, user

Call: TypeAlias = Callable[[GatewayStore, Busy], Coroutine[Any, Any, object]]

_GREETING = Greeting(welcome="welcome", idle="idle", daily="daily")
_NEW_EDITOR = editor_source("20260101_000000_cccccccc", "ada")
_DAY = timedelta(days=1)


def _with_votes(store: GatewayStore) -> GatewayStore:
    """The store of somebody who has a say in whether a session is busy."""
    store.settings = msgspec.structs.replace(store.settings, is_busy=lambda _: False)
    return store


def _expire(store: GatewayStore) -> Coroutine[Any, Any, ExpiryStep]:
    return store.expiry.expire_batch("signal", "dm")


async def _pair(store: GatewayStore) -> object:
    (waiting,) = await store.people.list_pairings()
    return await store.people.approve_pairing(waiting.number)


def _hand_over(store: GatewayStore, busy: Busy) -> Coroutine[Any, Any, object]:
    to: SessionEntry = busy.elsewhere
    return store.resume.hand_over(busy.later.session_id, to.session_key, "We go on here.", is_owners=True)


def _moved(what: Any, old: str, new: str) -> IdChange:
    return IdChange(platform="telegram", account="main", dedupe_key=new, what=what, old_id=old, new_id=new)


def _refusal(store: GatewayStore) -> RefuseRequest:
    return RefuseRequest(
        event=event(store, dm("40"), "r1"), person=None, role="guest", at=store.now(), notice=notice("r1")
    )


# A name may have an addition behind a comma: another way through the same verb.
CONVERSATIONS: dict[str, Call] = {
    "get_or_create_session": lambda store, _: store.get_or_create_session(dm("40")),
    "sessions.get_or_create": lambda store, _: store.sessions.get_or_create(dm("40"), force_new=True),
    "sessions.get_or_create, asking": lambda store, _: _with_votes(store).sessions.get_or_create(
        dm("1", platform="signal")
    ),
    "sessions.get_or_create, there": lambda store, _: store.sessions.get_or_create(dm("20")),
    "sessions.get_or_create, there, asking": lambda store, _: _with_votes(store).sessions.get_or_create(dm("20")),
    "reset_session": lambda store, busy: store.reset_session(busy.later.session_key),
    "sessions.reset": lambda store, busy: store.sessions.reset(busy.later.session_key),
    "switch_session": lambda store, busy: store.switch_session(busy.later.session_key, busy.earlier.session_id),
    "take_reset_notice": lambda store, busy: store.take_reset_notice(busy.reset.session_id, "user"),
    "sessions.take_reset_notice": lambda store, busy: store.sessions.take_reset_notice(busy.reset.session_id, "agent"),
    "set_title": lambda store, busy: store.set_title(busy.session_id, "a name"),
    "sessions.set_title": lambda store, busy: store.sessions.set_title(busy.session_id, "a name"),
    "set_runtime": lambda store, busy: store.set_runtime(busy.session_id, cwd="/elsewhere"),
    "sessions.set_runtime": lambda store, busy: store.sessions.set_runtime(busy.session_id, runtime={"mode": "plan"}),
    "mark_flushed": lambda store, busy: store.mark_flushed(busy.session_id),
    "sessions.mark_flushed": lambda store, busy: store.sessions.mark_flushed(busy.session_id),
    "sessions.choose_model": lambda store, busy: store.sessions.choose_model(busy.session_id, "own:swift"),
    "append_to_transcript": lambda store, busy: store.append_to_transcript(busy.session_id, user("more")),
    "transcripts.append": lambda store, busy: store.transcripts.append(busy.session_id, user("more"), "a key"),
    "rewrite_transcript": lambda store, busy: store.rewrite_transcript(busy.session_id, [user("instead")]),
    "transcripts.rewrite": lambda store, busy: store.transcripts.rewrite(busy.session_id, [user("instead")]),
    "rewind_session": lambda store, busy: store.rewind_session(busy.session_id),
    "transcripts.undo": lambda store, busy: store.transcripts.undo(busy.session_id),
    "redo_session": lambda store, busy: store.redo_session(busy.undone.session_id),
    "transcripts.redo": lambda store, busy: store.transcripts.redo(busy.undone.session_id),
    "retry_session": lambda store, busy: store.retry_session(busy.session_id),
    "transcripts.retry": lambda store, busy: store.transcripts.retry(busy.session_id),
    "fork_session": lambda store, busy: store.fork_session(busy.session_id),
    "transcripts.fork": lambda store, busy: store.transcripts.fork(busy.session_id, upto=busy.talk.refs[0]),
    "link_message": lambda store, busy: store.link_message(busy.talk.refs[0], "x1"),
    "transcripts.link": lambda store, busy: store.transcripts.link(busy.talk.refs[0], "x1"),
    "keep_file": lambda store, _: store.keep_file("telegram:7", b"another"),
    "files.keep": lambda store, _: store.files.keep("telegram:7", b"another"),
    "files.keep_for_turn": lambda store, busy: store.files.keep_for_turn(busy.turn.lease, b"another"),
    "files.delete_unsent": lambda store, _: store.files.delete_unsent(),
    "record_usage": lambda store, busy: store.record_usage(busy.session_id, "t1", input_tokens=1),
    "update_session": lambda store, busy: store.update_session(busy.later.session_key, input_tokens=1),
    "index_pending": lambda store, _: store.index_pending(),
    "redact": lambda store, busy: store.redact(busy.talk.refs[0]),
    "delete_session": lambda store, busy: store.delete_session(busy.earlier.session_id),
    "prune": lambda store, _: store.prune(_DAY),
    "collect": lambda store, _: store.collect(),
    "erase_person": lambda store, _: store.erase_person("telegram:7"),
    "editor_sessions.create": lambda store, _: store.editor_sessions.create(_NEW_EDITOR, "/at"),
    "editor_sessions.find, elsewhere": lambda store, _: store.editor_sessions.find(AWAY),
    "editor_sessions.fork": lambda store, _: store.editor_sessions.fork(EDITOR, _NEW_EDITOR),
    "editor_sessions.save": lambda store, _: store.editor_sessions.save(EDITOR, EditorSessionChanges(title="a name")),
    "editor_sessions.remove": lambda store, _: store.editor_sessions.remove(EDITOR),
    "change_feed.fork": lambda store, busy: store.change_feed.fork(
        CONVERSATION, str(busy.shown.refs[0]), web_source("u1", "c2")
    ),
    "resume.hand_over": _hand_over,
    "resume.switch": lambda store, busy: store.resume.switch(busy.later.session_key, busy.earlier.session_id),
    "resume.start_new": lambda store, busy: store.resume.start_new(busy.session_id),
    "resume.resume": lambda store, busy: store.resume.resume(busy.later.session_id, busy.earlier.session_id),
    "resume.continue_in_fork": lambda store, busy: store.resume.continue_in_fork(busy.session_id),
    "id_changes.apply": lambda store, _: store.id_changes.apply(_moved("chat", "dm-21", "dm-22b")),
    "agent_state.save": lambda store, busy: store.agent_state.save(
        busy.turn.lease, busy.turn.session_pk, "main", "kept"
    ),
}

WORK: dict[str, Call] = {
    "inbox.accept": lambda store, _: store.inbox.accept(admission(store, dm("40"), "m1")),
    "inbox.accept_and_greet": lambda store, _: store.inbox.accept_and_greet(
        admission(store, dm("40"), "m1"), _GREETING
    ),
    "inbox.park": lambda store, _: store.inbox.park(
        Unreadable(platform="telegram", account="main", raw="{", reason="no JSON")
    ),
    "inbox.refuse": lambda store, _: store.inbox.refuse(_refusal(store)),
    "inbox.list_unhandled_controls": lambda store, _: store.inbox.list_unhandled_controls(0),
    "message_changes.apply": lambda store, _: store.message_changes.apply(deletion(store, dm("9"), "waits-2")),
    "message_changes.answer_control": lambda store, busy: store.message_changes.answer_control(
        busy.controls[1].message, [notice("c1")]
    ),
    "message_changes.retry_deletion": lambda store, busy: store.message_changes.retry_deletion(
        busy.controls[0].message, busy.controls[0].session_pk
    ),
    "turns.claim": lambda store, _: store.turns.claim(claim_request(store, "t9")),
    "turns.accept_and_claim": lambda store, _: store.turns.accept_and_claim(
        admission(store, dm("40"), "m1"), _GREETING, claim_request(store, "t9")
    ),
    "turns.take_over": lambda store, _: store.turns.take_over("there", ["telegram"], LEASE),
    "turns.set_replay": lambda store, busy: store.turns.set_replay(busy.turn.lease, "never"),
    "turns.ensure_context": lambda store, busy: store.turns.ensure_context(busy.turn.session_pk, "context"),
    "turns.take_pending": lambda store, busy: store.turns.take_pending(busy.turn.lease, busy.session_id, "guest"),
    "turns.append_journal": lambda store, busy: store.turns.append_journal(busy.turn.lease, 2, ["{}"]),
    "turns.clear_journal": lambda store, busy: store.turns.clear_journal(busy.turn.lease),
    "turns.enqueue_progress": lambda store, busy: store.turns.enqueue_progress(busy.turn.lease, notice("p1")),
    "turns.suggest_title": lambda store, busy: store.turns.suggest_title(busy.turn.lease, busy.session_id, "a name"),
    "turns.rerun": lambda store, busy: store.turns.rerun([busy.turn], first=1),
    "turns.request_stop": lambda store, busy: store.turns.request_stop(busy.session_id, "stop"),
    "turns.finish": lambda store, busy: store.turns.finish(over(store, busy.turn)),
    "turns.release": lambda store, busy: store.turns.release(busy.turn.lease, busy.turn.session_pk),
    "approvals.request": lambda store, busy: store.approvals.request(question(store, busy.turn, "q2")),
    "approvals.expire": lambda store, _: store.approvals.expire(),
    "outbox.enqueue": lambda store, _: store.outbox.enqueue(notice("more")),
    "outbox.claim": lambda store, _: store.outbox.claim([("telegram", "main")], owner="here", duration=LEASE, limit=9),
    "outbox.mark_sent": lambda store, busy: store.outbox.mark_sent(busy.sending.claimed, "x1"),
    "outbox.mark_failed": lambda store, busy: store.outbox.mark_failed(
        busy.sending.claimed, Park("gone"), error="gone"
    ),
    "outbox.forget_external_id": lambda store, busy: store.outbox.forget_external_id(busy.sending.edited),
    "outbox.open_stream": lambda store, busy: store.outbox.open_stream(stream_of(busy.turn)),
    "outbox.cancel_stream_start": lambda store, busy: store.outbox.cancel_stream_start(busy.sending.stream),
    "outbox.save_stream_id": lambda store, busy: store.outbox.save_stream_id(busy.sending.stream, "x1"),
    "outbox.recover_expired": lambda store, _: store.outbox.recover_expired([]),
    "outbox.retry": lambda store, busy: store.outbox.retry(busy.sending.parked),
    "outbox.drop": lambda store, busy: store.outbox.drop(busy.sending.parked),
    "leases.renew": lambda store, busy: store.leases.renew([busy.turn.lease], duration=2 * LEASE),
    "leases.acquire": lambda store, _: store.leases.acquire("another name", "here", duration=LEASE),
    "leases.release": lambda store, busy: store.leases.release(busy.name),
    "leases.expire_owned_by": lambda store, _: store.leases.expire_owned_by("here"),
    "expiry.expire_batch": lambda store, _: _expire(store),
    "expiry.expire_batch, asking": lambda store, _: _expire(_with_votes(store)),
    "expiry.claim_flush": lambda store, _: store.expiry.claim_flush(["telegram"], owner="here", duration=LEASE),
    "expiry.finish_flush": lambda store, busy: store.expiry.finish_flush(busy.flush),
    "expiry.discard_flush": lambda store, busy: store.expiry.discard_flush(busy.flush),
    "expiry.fail_flush": lambda store, busy: store.expiry.fail_flush(busy.flush),
    "expiry.release_flush": lambda store, busy: store.expiry.release_flush(busy.flush),
    "owner_alerts.raise_alert": lambda store, _: store.owner_alerts.raise_alert(
        OwnerAlert(name="new", text="fix it", since=store.clock.now()), [notice("owner")]
    ),
    "owner_alerts.notify": lambda store, _: store.owner_alerts.notify("untold", [notice("owner")]),
    "owner_alerts.mark_unsent": lambda store, _: store.owner_alerts.mark_unsent(),
    "owner_alerts.clear": lambda store, _: store.owner_alerts.clear("told"),
    "owner_alerts.touch": lambda store, _: store.owner_alerts.touch(["told"]),
    "owner_alerts.clear_untouched": lambda store, _: store.owner_alerts.clear_untouched("told", store.clock.now()),
}

PEOPLE: dict[str, Call] = {
    "preferences.set_timezone": lambda store, _: store.preferences.set_timezone("telegram:7", "Asia/Tokyo"),
    "preferences.set_home_channel": lambda store, _: store.preferences.set_home_channel(dm("8")),
    "preferences.remove_home_channel": lambda store, _: store.preferences.remove_home_channel("telegram", "main"),
    "people.set_role": lambda store, _: store.people.set_role("telegram:7", "trusted"),
    "people.remove_role": lambda store, _: store.people.remove_role("telegram:7"),
    "people.revoke": lambda store, _: store.people.revoke("telegram:30"),
    "people.request_pairing": lambda store, _: store.people.request_pairing(dm("31")),
    "people.approve_pairing": lambda store, _: _pair(store),
    "web_access.invite": lambda store, _: store.web_access.invite("Cy"),
    "web_access.redeem": lambda store, busy: store.web_access.redeem(busy.code, digest_of("another")),
    "web_access.find_login, after a while": lambda store, _: store.web_access.find_login(COOKIE),
    "web_access.log_in": lambda store, _: store.web_access.log_in("web:owner", "Owner", digest_of("another")),
    "web_access.log_out": lambda store, _: store.web_access.log_out(COOKIE),
    "web_access.log_out_everywhere": lambda store, busy: store.web_access.log_out_everywhere(busy.person),
    "web_access.revoke": lambda store, _: store.web_access.revoke("Ada"),
}

WRITES = CONVERSATIONS | WORK | PEOPLE

_READS = """
get_session list_sessions has_any_sessions find_by_title load_transcript read_transcript page_transcript read_log
read_file find_file usage_report export
sessions.get sessions.list_page sessions.has_any sessions.find_by_title sessions.is_known_chat
transcripts.load transcripts.read transcripts.page transcripts.read_log
editor_sessions.list_page editor_sessions.history_plan editor_sessions.history_page editor_sessions.message_body
files.find files.read files.read_body
maintenance.list_messages maintenance.queue_counts maintenance.trace_message
inbox.list_pending inbox.is_known message_changes.find_content
turns.people_of_running turns.roles_of_unanswered approvals.find_open approvals.find_in_chat
outbox.list_page outbox.has_pending_at outbox.has_pending_on leases.list_all expiry.read_flush
owner_alerts.list_open owner_alerts.list_states owner_alerts.find_owner_chat
change_feed.list_page change_feed.snapshot change_feed.earlier change_feed.find change_feed.fingerprints
change_feed.count_exchanges_since
resume.find_conversation resume.previous_session owner_search.find_title owner_search.sessions owner_search.hits
preferences.timezone_of preferences.list_home_channels agent_state.load
people.find_role people.list_all people.list_pairings people.pairing_locked_until web_access.list_all
"""
READS = frozenset(_READS.split())

# Tasks that are not in the table, and why.
TASKS = {
    "search": "reads; brings the index nearer where it is behind, by the writes of `index_pending`",
    "facts": "reads, and asks the engine",
    "maintenance.facts": "reads, and asks the engine",
    "backup": "reads in the engine, and writes another file",
    "maintenance.backup": "reads in the engine, and writes another file",
    "check": "reads, and asks the engine",
    "maintenance.check": "reads, and asks the engine",
    "people.installation_secret": "reads; makes the secret once, by the write with which `request_pairing` begins",
}
