"""Resolve and reset sessions; titles, runtime and notices of sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidRequest, UnknownSession
from threadline.model.address import SessionAddress, dm_of_thread
from threadline.model.client_sources import ACP
from threadline.model.ownership import ownership_of
from threadline.model.policy import SessionResetPolicy, resolve_zone, stale_reason, uses_person_timezone
from threadline.model.session import CHOSEN_MODEL, ResetReason, SessionEntry, checked_runtime
from threadline.model.source import SessionSource
from threadline.model.view import cut_after
from threadline.store.conversations import id_changes, indexes, records, views
from threadline.store.conversations.records import (
    HAD_SESSIONS,
    AddressRow,
    NewSession,
    _ensure_owned,
    begin,
    end,
    ensure_address,
    find_address,
    get_entry,
    get_session,
    require_row,
    session_by_pk,
)
from threadline.store.engine.database import Perform, Row, Step, Tx, leaving_work, read, task, write
from threadline.store.rows import Page, StoredSession, entry_of, json_text, session_of
from threadline.store.verbs import (
    MAX_PATH_CHARS,
    Group,
    IsBusy,
    Mode,
    PersonRef,
    Store,
    clean_or_none,
    clean_text,
    clean_title,
    instant_minutes_ago,
    reads,
    verb,
    viewer_of,
    writes,
)

NoticeAudience: TypeAlias = Literal["user", "agent"]


class Stale(msgspec.Struct, frozen=True):
    """A session to reset, and why, unless it has changed since this was decided."""

    session_id: str
    updated_at: datetime
    reason: ResetReason


class ResolveRequest(msgspec.Struct, frozen=True):
    """A request for the current session of an address, with all values that the answer depends on."""

    source: SessionSource
    address: SessionAddress
    policy: SessionResetPolicy
    zone: str
    at: Instant
    new_id: str
    force_new: bool = False
    busy: bool = False
    # The person whose own time zone overrides `zone`; `None` where it makes no difference.
    person: str | None = None
    # Whether to flush a session that this ends. Without a gateway no agent would see it.
    flush: bool = False
    # Whether an address without a session is an error: a message does not begin a conversation there.
    must_exist: bool = False
    # The key of a new conversation, under which it may also have been adopted; `None`: the address's own.
    key: str | None = None
    # A session that the caller found stale by rules of its own, which `policy` does not have.
    stale: Stale | None = None


class ResetNotice(msgspec.Struct, frozen=True):
    """A notice that a conversation was reset by its policy, and why."""

    reason: ResetReason
    audience: NoticeAudience
    session_id: str


def resolve(tx: Tx, request: ResolveRequest) -> SessionEntry:
    """Return the current session of the address, touched; begin one where there is none, it is stale, or `force_new` is set.

    Concurrent callers get the same session: the address's row is locked from the first read on. Raise `UnknownSession` where there
    is none and `must_exist` is set.
    """
    resolved = _resolve(tx, request)
    return resolved.entry if isinstance(resolved, StoredSession) else resolved


def resolve_locked(tx: Tx, request: ResolveRequest, current: Row | None) -> StoredSession:
    """Return the session of `resolve`, locked: nobody appends to it or begins a turn in it until the commit.

    The touch is the lock. The entry has the values of just before that. `current`: the row that `find_current` returned.
    """
    resolved = _resolve(tx, request, current)
    return resolved if isinstance(resolved, StoredSession) else get_session(tx, resolved.session_id, lock=True)


def _resolve(tx: Tx, request: ResolveRequest, row: Row | None = None) -> StoredSession | SessionEntry:
    """Return the current session, touched, or the entry of a session that was begun instead. `row`: the current one, if known."""
    request = _in_timezone_of_person(tx, request)
    row = row or tx.find("find_current", digest=request.address.digest)
    if row is None and request.key is not None:
        row = tx.find("find_current_by_alias", key=request.key)
    if row is None:
        return _first_session(tx, request)
    current = session_of(row)
    if current.ownership != ownership_of(request.source, request.address) and _move_former_holder(tx, current, request):
        return _resolve(tx, request)
    if request.force_new:
        return _begin_successor(tx, current, request, reason=None)
    if current.entry.ended_at is not None:
        return _begin_successor(tx, current, request, reason=_expiry_reason(tx, current))
    if not request.busy and _reset_reason_of(current, request) is not None:
        # A turn may have ended since the row was read, which makes the session active: decide under the lock.
        current = get_session(tx, current.entry.session_id, lock=True)
        if current.entry.ended_at is not None:
            return _resolve(tx, request)
        reason = _reset_reason_of(current, request)
        if reason is not None and tx.find("is_busy", session_pk=current.pk) is None:
            return _begin_successor(tx, current, request, reason=reason)
    if not tx.run("touch_session", at=request.at, session_pk=current.pk):
        # It expired while this transaction waited for its address.
        return _resolve(tx, request)
    now = from_instant(request.at)
    return msgspec.structs.replace(current, entry=msgspec.structs.replace(current.entry, updated_at=now, active_at=now))


def find_stale(tx: Tx, request: ResolveRequest) -> str | None:
    """Return the key of the address's session if it would be reset now, so that a caller can ask whether it is busy."""
    request = _in_timezone_of_person(tx, request)
    row = tx.find("peek_current", digest=request.address.digest)
    if row is None or request.force_new:
        return None
    entry = entry_of(row)
    if entry.ended_at is not None:
        return None
    stale = stale_reason(request.policy, active_at=entry.active_at, now=from_instant(request.at), zone=request.zone)
    return entry.session_key if stale else None


def reset(tx: Tx, at: Instant, key: str, *, new_id: str, flush: bool = False) -> SessionEntry | None:
    """Begin a session for the address at once, with the same origin and display name. `None` for an unknown key.

    `flush`: show the messages of the ended session to its agent once more.
    """
    address = find_address(tx, key)
    if address is None or address.session_pk is None:
        return None
    current = session_by_pk(tx, address.session_pk)
    end(tx, at, current, reason="session_reset", flush=flush)
    return begin(tx, address, _successor_of(current, new_id, at))


def fork_at(
    tx: Tx,
    address: AddressRow,
    parent: StoredSession,
    new: NewSession,
    upto: int | None = None,
    *,
    current: bool = True,
) -> SessionEntry:
    """Begin a session at `address` with the view of `parent`, up to and with the message `upto`. Costs the same at any size."""
    shown = views.load(tx, parent.pk, parent.view_version)
    if upto is not None:
        shown = cut_after(shown, upto, log=parent.pk, last_seq=parent.last_seq)
    entry = parent.entry
    # The name stays with its origin: at another's address it would outlive the person it names.
    own_name = entry.display_name if new.origin == entry.origin else None
    new = msgspec.structs.replace(
        new,
        display_name=new.display_name or own_name,
        model=new.model or entry.model,
        cwd=new.cwd or entry.cwd,
        runtime=new.runtime or json_text(entry.runtime),
        parent_session_id=entry.session_id,
    )
    return begin(tx, address, new, inherit=(parent, shown), current=current)


def set_runtime(tx: Tx, at: Instant, session_id: str, changes: dict[str, Any]) -> SessionEntry:
    """Set any of `model`, `cwd`, `runtime`; the others stay."""
    session = get_session(tx, session_id, lock=True)
    entry = session.entry
    values = {
        "model": changes.get("model", entry.model),
        "runtime": json_text(changes.get("runtime", entry.runtime)),
    }
    tx.run("set_runtime", session_pk=session.pk, **values)
    tx.run("set_cwd", cwd=changes.get("cwd", entry.cwd), session_pk=session.pk)
    tx.run("mark_updated", at=at, session_pk=session.pk)
    return get_entry(tx, session_id)


def mark_flushed(tx: Tx, session_id: str) -> SessionEntry:
    """Record that the agent has seen the session so far for its memory. Touches no clock."""
    session = get_session(tx, session_id, lock=True)
    tx.run("mark_flushed", seq=session.last_seq, session_pk=session.pk)
    return get_entry(tx, session_id)


def take_reset_notice(tx: Tx, session_id: str, audience: NoticeAudience) -> ResetNotice | None:
    """Return the notice of a reset for `"user"` or `"agent"`: once each, also across restarts."""
    if audience not in ("user", "agent"):
        raise InvalidRequest(f"a notice is for 'user' or 'agent', not {audience!r}")
    session = get_session(tx, session_id)
    reason = session.entry.auto_reset_reason
    if reason is None or tx.run(f"take_{audience}_notice", session_pk=session.pk) == 0:
        return None
    return ResetNotice(reason, audience, session_id)


def has_any(tx: Tx, besides: str | None = None) -> bool:
    """Return whether there ever were sessions other than `besides`, ended and pruned ones included."""
    if tx.find("any_session_besides", besides=besides or "") is not None:
        return True
    return tx.find("find_meta", name=HAD_SESSIONS) is not None


def _reset_reason_of(current: StoredSession, request: ResolveRequest) -> ResetReason | None:
    if request.stale is not None:
        as_it_is = Stale(current.entry.session_id, current.entry.updated_at, request.stale.reason)
        return as_it_is.reason if as_it_is == request.stale else None
    if request.policy.mode == "none":
        return None
    active_at, now = current.entry.active_at, from_instant(request.at)
    return stale_reason(request.policy, active_at=active_at, now=now, zone=request.zone)


def _in_timezone_of_person(tx: Tx, request: ResolveRequest) -> ResolveRequest:
    """Return the request with the zone that its person chose, if that matters."""
    zone = None if request.person is None else records.timezone_of(tx, request.person)
    return request if zone is None else msgspec.structs.replace(request, zone=zone, person=None)


def _first_session(tx: Tx, request: ResolveRequest) -> SessionEntry:
    address = ensure_address(tx, request.source, request.address, request.key)
    if address.session_pk is not None:
        # Another caller began one before this transaction had the lock.
        return resolve(tx, request)
    former = id_changes.find_under_former_id(tx, request.at, request.source, request.address)
    if isinstance(former, id_changes.RedirectedSource):
        return resolve(tx, msgspec.structs.replace(request, source=former.source, address=former.address))
    if former is not None:
        id_changes.move_sessions(tx, former.address_pk, former.session_pk, address.pk)
        return resolve(tx, request)
    if request.must_exist:
        raise UnknownSession("there is no conversation any more; begin another")
    new = NewSession(request.new_id, request.source, request.at, display_name=_display_name(request.source))
    parent = None if request.force_new else _find_thread_parent(tx, request)
    if parent is None:
        return begin(tx, address, new)
    upto = _thread_start(tx, parent, request.address.thread)
    if upto is None and parent.entry.ended_at is not None:
        # The DM has ended: there is no tip to continue from.
        return begin(tx, address, new)
    return fork_at(tx, address, parent, new, upto)


def _move_former_holder(tx: Tx, current: StoredSession, request: ResolveRequest) -> bool:
    """Move the conversation of a person who gave up the id of this address; return whether there was one."""
    new_address = id_changes.find_former_holder(tx, request.at, request.source, request.address, current.ownership)
    if new_address is None:
        return False
    new_place = _ensure_owned(tx, new_address, current.ownership)
    if new_place.session_pk is not None:
        # They have a current session there by now. This one can be resumed.
        end(tx, request.at, current, reason="session_switch")
    id_changes.move_sessions(tx, current.address_pk, None if new_place.session_pk else current.pk, new_place.pk)
    return True


def _find_thread_parent(tx: Tx, request: ResolveRequest) -> StoredSession | None:
    """Return the DM that a new thread continues, if it has messages of its own."""
    parent_address = dm_of_thread(request.address)
    if parent_address is None:
        return None
    row = tx.find("find_current", digest=parent_address.digest)
    if row is None:
        former = id_changes.find_under_former_id(tx, request.at, request.source, parent_address)
        row = None if former is None else tx.find("find_current", digest=former.address.digest)
    if row is None:
        return None
    parent = get_session(tx, entry_of(row).session_id, lock=True)
    return parent if parent.entry.message_count > 0 else None


def _thread_start(tx: Tx, parent: StoredSession, thread: str | None) -> int | None:
    """Return the number of the message that a thread is named after, if the parent's log has it."""
    row = tx.find("find_external", session_pk=parent.pk, external_id=thread)
    if row is None:
        return None
    shown = views.load(tx, parent.pk, parent.view_version).shown
    number: int = row[0]
    return number if any(span.lo <= number <= span.hi for span in shown) else None


def _begin_successor(
    tx: Tx, current: StoredSession, request: ResolveRequest, *, reason: ResetReason | None
) -> SessionEntry:
    end(tx, request.at, current, reason="session_reset", flush=request.flush)
    new = NewSession(
        request.new_id,
        request.source,
        request.at,
        display_name=_display_name(request.source) or current.entry.display_name,
        reset_reason=reason,
        reset_had_activity=reason is not None and current.had_activity,
        tell_user=reason is not None and current.had_activity and request.policy.notify,
        **_kept_settings(current.entry),
    )
    return begin(tx, AddressRow(*require_row(tx.find("find_address_by_pk", pk=current.address_pk))), new)


def _expiry_reason(tx: Tx, current: StoredSession) -> ResetReason | None:
    row = tx.find("why_expired", address_pk=current.address_pk)
    return None if row is None else row[0]


def _successor_of(current: StoredSession, new_id: str, at: Instant) -> NewSession:
    entry = current.entry
    return NewSession(new_id, entry.origin, at, display_name=entry.display_name, **_kept_settings(entry))


def _kept_settings(entry: SessionEntry) -> dict[str, Any]:
    """Return the settings that a new session keeps from the one before it: for an editor, folder and runtime."""
    return {"cwd": entry.cwd, "runtime": json_text(entry.runtime)} if entry.platform == ACP else {}


def _display_name(source: SessionSource) -> str | None:
    name = source.user_name if source.chat_type == "dm" else source.chat_name
    if not name:
        return None
    return "".join(c for c in name if c.isprintable())[:200] or None


def choose_model(tx: Tx, at: Instant, session_id: str, name: str | None) -> SessionEntry:
    """Set the model that answers in a session; `None`: the agent's own. The rest of its runtime stays."""
    entry = records.get_session(tx, session_id, lock=True).entry
    others = {option: value for option, value in entry.runtime.items() if option != CHOSEN_MODEL}
    runtime = others if name is None else {**others, CHOSEN_MODEL: name}
    return set_runtime(tx, at, session_id, {"runtime": runtime})


def is_known_chat(tx: Tx, chat: str | None, person: str | None) -> bool:
    """Return whether that group, or that person, has any conversation: nowhere else there is anything to change."""
    return tx.find("knows_chat", chat=chat, person=person) is not None


_MODEL_CHARS = 200


class Sessions(Group[Mode]):
    """The current sessions of conversations: resolve, reset, titles and runtime."""

    get = reads(records.get_entry)
    has_any = reads(has_any)
    take_reset_notice = writes(take_reset_notice)
    mark_flushed = writes(mark_flushed)
    is_known_chat = reads(is_known_chat)

    @verb
    def choose_model(store: Store[Any], session_id: str, name: str | None) -> Step[SessionEntry]:
        """Set the model that answers in a session from now on; `None`: the agent's own."""
        chosen = clean_or_none("the name of a model", name, _MODEL_CHARS)
        return write(choose_model, store.now(), session_id, chosen)

    @verb
    def get_or_create(
        store: Store[Any], source: SessionSource, force_new: bool = False, *, agent: str | None = None
    ) -> Step[SessionEntry]:
        """Return the current session of the conversation that `source` belongs to, touched.

        Begin one where there is none, where the reset policy finds it stale and it is not busy, or with `force_new`; the old
        one is then ended. A new thread in a DM starts with the DM's history. Concurrent callers get the same session.
        """
        request = resolve_request(store, source, agent=agent, force_new=force_new)
        is_busy = store.settings.is_busy
        if is_busy is None or request.policy.mode == "none":
            return leaving_work(write(resolve, request))
        return leaving_work(task(_resolve_unless_busy, request, is_busy))

    @verb
    def reset(store: Store[Any], key: str) -> Step[SessionEntry | None]:
        """Begin a session for the conversation at once, with the same origin and display name. `None`: unknown key."""
        at, new_id = store.now_with_id()
        return write(reset, at, key, new_id=new_id)

    @verb
    def list_page(
        store: Store[Any],
        active_minutes: float | None = None,
        *,
        include_ended: bool = False,
        person: PersonRef = None,
        platform: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Step[Page[SessionEntry]]:
        """Return a page of sessions, the most recently updated first; `page.cursor` asks for the next.

        `person` is a name such as `telegram:7`, or a source: then what its sender may see from there.
        """
        request = indexes.ListRequest(
            include_ended=include_ended,
            viewer=viewer_of(person),
            platform=platform,
            limit=limit,
            cursor=cursor,
        )
        if active_minutes is not None:
            since = instant_minutes_ago(store.settings.clock.now(), active_minutes)
            request = msgspec.structs.replace(request, active_since=since)
        return read(indexes.list_sessions, request)

    @verb
    def set_title(store: Store[Any], session_id: str, title: str | None) -> Step[SessionEntry]:
        """Set the title of a session, for `/resume NAME`; `None` removes it."""
        return write(records.set_title, store.now(), session_id, clean_title(title))

    @verb
    def find_by_title(_: Store[Any], title: str, *, viewer: PersonRef = None) -> Step[SessionEntry | None]:
        """Return the most recently updated session of that title that the viewer may see; case and accents do not matter."""
        return read(records.find_by_title, title, viewer_of(viewer))

    @verb
    def set_runtime(
        store: Store[Any],
        session_id: str,
        *,
        model: str | None = None,
        cwd: str | None = None,
        runtime: dict[str, Any] | None = None,
    ) -> Step[SessionEntry]:
        """Set the given values of model, working directory and runtime. Names that look like secrets are refused."""
        changes: dict[str, Any] = {}
        if model is not None:
            changes["model"] = clean_text("model", model)
        if cwd is not None:
            changes["cwd"] = clean_text("cwd", cwd, MAX_PATH_CHARS)
        if runtime is not None:
            changes["runtime"] = checked_runtime(runtime)
        return write(set_runtime, store.now(), session_id, changes)


def resolve_request(
    store: Store[Any],
    source: SessionSource,
    *,
    agent: str | None = None,
    force_new: bool = False,
    flush: bool = False,
    must_exist: bool = False,
) -> ResolveRequest:
    """Return the request for the session that a message from `source` belongs to, as of now.

    With `must_exist` no session is begun for it.
    """
    settings = store.settings
    policy = settings.policies.policy_for(source.platform, source.chat_type)
    address = store.address_of(source, agent)
    at, new_id = store.now_with_id()
    return ResolveRequest(
        source=source,
        address=address,
        policy=policy,
        zone=resolve_zone(policy, installation=settings.zone),
        at=at,
        new_id=new_id,
        force_new=force_new,
        flush=flush,
        must_exist=must_exist,
        # A shared session has the time zone of none of its people.
        person=ownership_of(source, address).owner if uses_person_timezone(policy) else None,
    )


def _resolve_unless_busy(perform: Perform, request: ResolveRequest, is_busy: IsBusy) -> SessionEntry:
    # `is_busy` is called outside of any transaction: it may be slow, and may call the store itself.
    stale = perform(read(find_stale, request))
    if stale is not None and is_busy(stale):
        request = msgspec.structs.replace(request, busy=True)
    return perform(write(resolve, request))
