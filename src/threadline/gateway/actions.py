"""What each command does, once it is known that it may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeAlias

import msgspec

from threadline.errors import NothingToRedo, NothingToUndo, NotYours, UnknownSession
from threadline.gateway.command_table import TABLE, Call
from threadline.gateway.composing import Composer, Retried
from threadline.gateway.settings import GatewaySettings
from threadline.model.access import Role, allows, lowest_role, may_stop
from threadline.model.delivery import target_of
from threadline.model.files import attachments_of
from threadline.model.message import Message, text_of
from threadline.model.safe_text import safe_line
from threadline.model.session import SessionEntry
from threadline.model.turn import PendingMessage, StopReason
from threadline.ports.agent import AskPermission, ChoosesModel
from threadline.store.conversations.search import Hit
from threadline.store.facade import GatewayStore
from threadline.store.leases import TurnLease
from threadline.store.text import CLOSE, OPEN
from threadline.store.work.approvals import Decision
from threadline.texts import commands as texts

_SHOWN = 10
_SHOWN_ELSEWHERE = 5
_LINE = 80
_SNIPPET = 400


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a command says, and what is yet to be done together with saying it."""

    text: str = ""
    # The session that goes on with what waits.
    move_to: str | None = None
    # What the agent is to answer again.
    retried: Retried | None = None
    # A waiting message to drop.
    drops: PendingMessage | None = None
    # A question to answer, and how.
    decides: int | None = None
    decision: Decision = "denied"
    # What to say where either comes too late.
    too_late: str = ""


class Means:
    """What commands work with."""

    def __init__(
        self,
        store: GatewayStore,
        stop_turn: Callable[[str, StopReason], None],
        composer: Composer,
        is_owner: Callable[[str], Awaitable[bool]],
        owners: Callable[[], Collection[str]],
    ) -> None:
        """`owners` are those whom the configuration calls so; `is_owner` knows all of them."""
        self.store = store
        self.stop_turn = stop_turn
        self.is_owner = is_owner
        self.owners = owners
        self._composer = composer

    def under(self, held: TurnLease) -> Means:
        """The same for a command that takes its turn: it changes nothing once that is another's."""
        return Means(self.store.fenced(held), self.stop_turn, self._composer, self.is_owner, self.owners)

    @property
    def settings(self) -> GatewaySettings:
        """How the gateway behaves at this moment."""
        return self._composer.settings

    def chosen_model(self, call: Call, entry: SessionEntry) -> str | None:
        """The model that a session chose; a choice that its agent does not look at is none."""
        _, agent = self.settings.agent_for(call.source)
        return entry.chosen_model if isinstance(agent, ChoosesModel) else None

    def is_connected(self, platform: str, account: str) -> bool:
        """Whether this gateway can send there now."""
        return self._composer.outbox.platform_of(platform, account) is not None


Action: TypeAlias = Callable[[Means, Call], Awaitable[Answer]]


async def _help(_means: Means, call: Call) -> Answer:
    rows = [f"`{c.usage}` {c.help}" for c in TABLE.values() if allows(call.role, c.least)]
    return Answer(text="\n".join([texts.HELP_HEAD, "", *rows]))


async def _start(_means: Means, _call: Call) -> Answer:
    return Answer(text=texts.START)


async def _stop(means: Means, call: Call) -> Answer:
    session_id = call.session.session_id
    people = await means.store.turns.people_of_running(session_id)
    if not people:
        return Answer(text=texts.NOTHING_RUNS)
    is_own = call.person is not None and all(person == call.person for person in people)
    if not may_stop(call.role, own_turn=is_own):
        return Answer(text=texts.NOT_YOUR_ANSWER)
    asked = await means.store.turns.request_stop(session_id, "stop")
    means.stop_turn(session_id, "stop")
    return Answer(text=texts.STOPPING if asked else texts.NOTHING_RUNS)


async def _approve(means: Means, call: Call) -> Answer:
    return await _decide(means, call, "granted")


async def _deny(means: Means, call: Call) -> Answer:
    return await _decide(means, call, "denied")


async def _decide(means: Means, call: Call, decision: Decision) -> Answer:
    """Only by who may, only on the question that they mean, and only on one that they can have read."""
    asked, code = await means.store.approvals.find_open(call.session.session_id), call.argument.upper()
    if code and (asked is None or code != asked.code):
        asked = await means.store.approvals.find_in_chat(target_of(call.source).ordering_key, code) or asked
    if asked is None:
        return Answer(text=texts.NOTHING_ASKED)
    if code and code != asked.code:
        return Answer(text=texts.ANOTHER_QUESTION.format(code=asked.code))
    is_read = asked.shown_at is not None and (bool(code) or asked.shown_at <= call.said_at)
    if not is_read and (decision == "granted" or not code):
        return Answer(text=texts.NOT_SHOWN_YET.format(code=asked.code))
    question = msgspec.json.decode(asked.event, type=AskPermission)
    tool = safe_line(question.tool, _LINE)
    if not allows(call.role, asked.least_role):
        return Answer(text=texts.NOT_YOURS_TO_ALLOW.format(tool=tool, whom=texts.ROLE_MEANS[asked.least_role]))
    granted = texts.APPROVED_FOR_GOOD if question.is_for_good else texts.APPROVED
    said = granted if decision == "granted" else texts.DENIED
    return Answer(text=said.format(tool=tool), decides=asked.pk, decision=decision, too_late=texts.NOTHING_ASKED)


async def _queue(means: Means, call: Call) -> Answer:
    waiting = await means.store.inbox.list_pending(call.session.session_id)
    if call.argument:
        return _drop(call, waiting, int(call.argument.split()[1]))
    rows = [f"{place}. {_short(item.event.text)}" for place, item in enumerate(waiting, 1)]
    return Answer(text="\n".join([texts.QUEUE.format(count=len(rows)), *rows]) if rows else texts.QUEUE_EMPTY)


def _drop(call: Call, waiting: list[PendingMessage], place: int) -> Answer:
    if not 1 <= place <= len(waiting):
        return Answer(text=texts.NO_SUCH_PLACE.format(place=place))
    wanted = waiting[place - 1]
    if call.session.is_shared and call.role != "owner" and (call.person is None or wanted.person != call.person):
        return Answer(text=texts.NOT_YOUR_MESSAGE.format(place=place))
    return Answer(
        text=texts.DROPPED.format(place=place, text=_short(wanted.event.text)),
        drops=wanted,
        too_late=texts.ALREADY_TAKEN.format(place=place),
    )


async def _status(means: Means, call: Call) -> Answer:
    entry = await means.store.get_session(call.session.session_id)
    waiting = await means.store.inbox.list_pending(entry.session_id)
    people = await means.store.turns.people_of_running(entry.session_id)
    asked = await means.store.approvals.find_open(entry.session_id)
    return Answer(
        text=texts.STATUS.format(
            title=_short(entry.title) if entry.title else texts.UNTITLED,
            session=entry.session_id,
            messages=entry.message_count,
            model=means.chosen_model(call, entry) or entry.model or texts.OWN_MODEL,
            waiting=len(waiting),
            doing=texts.DOING_ASKS if asked else texts.DOING if people else texts.DOING_NOTHING,
        )
    )


async def _whoami(_means: Means, call: Call) -> Answer:
    whom = texts.ROLE_MEANS[call.role]
    return Answer(text=texts.WHOAMI.format(person=call.person or texts.NOBODY, role=call.role, whom=whom))


async def _usage(means: Means, call: Call) -> Answer:
    entry = await means.store.get_session(call.session.session_id)
    cached = entry.cache_read_tokens + entry.cache_write_tokens
    return Answer(
        text=texts.USAGE.format(
            total=entry.total_tokens,
            input=entry.input_tokens,
            output=entry.output_tokens,
            cached=texts.USAGE_CACHED.format(cached=cached) if cached else "",
            cost=_cost(entry),
        )
    )


def _cost(entry: SessionEntry) -> str:
    if entry.cost_status == "unknown" and not entry.cost_micros:
        return texts.COST_UNKNOWN
    if entry.cost_status == "included":
        return texts.COST_INCLUDED
    said = texts.COST_ACTUAL if entry.cost_status == "actual" else texts.COST
    return said.format(cost=entry.estimated_cost_usd)


async def _sessions(means: Means, call: Call) -> Answer:
    page = await means.store.list_sessions(include_ended=True, person=call.source, limit=_SHOWN)
    rows = [
        texts.SESSION_ROW.format(
            session=entry.session_id,
            title=_title_of(entry),
            messages=entry.message_count,
            here=texts.SESSION_CURRENT if entry.session_id == call.session.session_id else "",
        )
        for entry in page
    ]
    head = texts.SESSIONS if call.source.chat_type == "dm" else texts.SESSIONS_HERE
    lines = [head, *rows] if rows else [texts.NO_SESSIONS]
    return Answer(text="\n".join([*lines, *await _elsewhere(means, call)]))


async def _elsewhere(means: Means, call: Call) -> list[str]:
    """What an owner could go on with from other platforms, in a few lines."""
    if not _asks_as_owner(call):
        return []
    found = await means.store.owner_search.sessions(call.source.platform, means.owners(), limit=_SHOWN_ELSEWHERE)
    rows = [
        texts.SESSION_ELSEWHERE.format(
            session=entry.session_id,
            title=_title_of(entry),
            messages=entry.message_count,
            platform=entry.platform,
        )
        for entry in found
    ]
    return ["", texts.SESSIONS_ELSEWHERE, *rows] if rows else []


def _asks_as_owner(call: Call) -> bool:
    """Whether an owner asks where nobody else reads along."""
    return call.role == "owner" and call.source.chat_type == "dm" and not call.session.is_shared


async def _search(means: Means, call: Call) -> Answer:
    page = await means.store.search(call.argument, viewer=call.source, limit=_SHOWN)
    rows = [_found(hit) for hit in page]
    if _asks_as_owner(call):
        seen = {hit.ref for hit in page}
        more = await means.store.owner_search.hits(
            call.argument, call.source.platform, means.owners(), limit=_SHOWN_ELSEWHERE
        )
        elsewhere = [_found(hit) for hit in more if hit.ref not in seen]
        rows += ["", texts.FOUND_ELSEWHERE, *elsewhere] if elsewhere else []
    return Answer(text="\n".join(rows).strip() or texts.NOTHING_FOUND)


def _found(hit: Hit) -> str:
    return texts.FOUND.format(
        session=hit.session.session_id,
        title=_title_of(hit.session),
        snippet=_quoted(hit.snippet.replace(OPEN, "**").replace(CLOSE, "**"), _SNIPPET),
    )


async def _title(means: Means, call: Call) -> Answer:
    entry = await means.store.set_title(call.session.session_id, call.argument or None)
    return Answer(text=texts.TITLED.format(title=_short(entry.title)) if entry.title else texts.TITLE_GONE)


async def _fork(means: Means, call: Call) -> Answer:
    entry = await means.store.resume.continue_in_fork(call.session.session_id)
    return Answer(text=texts.FORKED.format(old=call.session.session_id), move_to=entry.session_id)


async def _undo(means: Means, call: Call) -> Answer:
    count = int(call.argument or "1")
    try:
        await means.store.rewind_session(call.session.session_id, count)
    except NothingToUndo:
        return Answer(text=texts.NOTHING_TO_UNDO)
    return Answer(text=texts.UNDONE if count == 1 else texts.UNDONE_SOME.format(count=count))


async def _redo(means: Means, call: Call) -> Answer:
    try:
        await means.store.redo_session(call.session.session_id)
    except NothingToRedo:
        return Answer(text=texts.NOTHING_TO_REDO)
    return Answer(text=texts.REDONE)


async def _retry(means: Means, call: Call) -> Answer:
    try:
        await means.store.retry_session(call.session.session_id)
    except NothingToUndo:
        return Answer(text=texts.NOTHING_TO_RETRY)
    history = await means.store.load_transcript(call.session.session_id)
    asked: list[Message] = []
    while history and history[-1].get("role") == "user":
        asked.insert(0, history.pop())
    if not asked:
        return Answer(text=texts.NOTHING_TO_RETRY)
    role = await _role_of_question(means, call)
    text = "\n\n".join(text_of(message.get("content")) for message in asked)
    files = tuple(file for message in asked for file in attachments_of(message))
    return Answer(retried=Retried(text, tuple(history), role=role, attachments=files))


async def _role_of_question(means: Means, call: Call) -> Role:
    """Somebody else's words get no more rights because of who lets them be answered again."""
    if not call.session.is_shared:
        return call.role
    return lowest_role([call.role, *await means.store.turns.roles_of_unanswered(call.session.session_id)])


async def _new(means: Means, call: Call) -> Answer:
    entry = await means.store.resume.start_new(call.session.session_id)
    return Answer(text=texts.FRESH, move_to=entry.session_id)


async def _resume(means: Means, call: Call) -> Answer:
    wanted = call.argument or await means.store.resume.previous_session(call.session.session_id)
    if wanted is None:
        return Answer(text=texts.NOTHING_TO_RESUME)
    found = await means.store.find_by_title(wanted, viewer=call.source)
    theirs = None if found is not None else await _owners_session(means, call, wanted)
    meant = found or theirs
    session_id = wanted if meant is None else meant.session_id
    owners = None if theirs is None else theirs.owner
    try:
        entry = await means.store.resume.resume(call.session.session_id, session_id, owners=owners)
    except (UnknownSession, NotYours):
        # The same words for both: nobody learns what others have.
        return Answer(text=texts.NO_SUCH_SESSION.format(name=_short(wanted)))
    if theirs is not None:
        said = texts.RESUMED_COPY.format(title=_title_of(theirs), platform=theirs.platform)
        return Answer(text=said, move_to=entry.session_id)
    return Answer(text=texts.RESUMED.format(title=_short(entry.title or entry.session_id)), move_to=entry.session_id)


async def _owners_session(means: Means, call: Call, wanted: str) -> SessionEntry | None:
    """The session of another owner, or of theirs elsewhere, that an owner means by its id or its name."""
    if not _asks_as_owner(call):
        return None
    try:
        entry: SessionEntry | None = await means.store.get_session(wanted)
    except UnknownSession:
        entry = await means.store.owner_search.find_title(wanted, means.owners())
    if entry is None or entry.owner is None or entry.owner == call.person:
        return None
    return entry if await means.is_owner(entry.owner) else None


def _title_of(entry: SessionEntry) -> str:
    return _short(entry.label)


def _short(text: str | None) -> str:
    return _quoted(text or "", _LINE)


def _quoted(text: str, most: int) -> str:
    """What people wrote, on one line of ours. Everybody in the chat reads it: no link of theirs hides where it leads."""
    return safe_line(text, most).replace("](", "] (")


ACTIONS: Mapping[str, Action] = {
    "help": _help,
    "start": _start,
    "stop": _stop,
    "approve": _approve,
    "deny": _deny,
    "queue": _queue,
    "status": _status,
    "whoami": _whoami,
    "usage": _usage,
    "sessions": _sessions,
    "search": _search,
    "title": _title,
    "fork": _fork,
    "undo": _undo,
    "redo": _redo,
    "retry": _retry,
    "new": _new,
    "reset": _new,
    "resume": _resume,
}
