"""A prompt that runs: its queue of events, permission questions, and cancelling it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from threadline.agents.acp.events import INPUT_CHARS, KnownCall, Translated, TurnTooLarge, UpdateTranslator, text_of
from threadline.agents.acp.settings import AcpAgentConfig, AcpLimits, Permissions
from threadline.log import get_logger
from threadline.model.access import TOOLS, Role, may_use
from threadline.ports.agent import AgentError, AskPermission, Notice, Plan, Text, Thought, ToolCall
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

# A question has to be read in a chat: the longest texts in it are cut until all of it is no longer than this.
_ASK_CHARS = 12_000
_CUTS = (8_000, 2_000, 400, 80)
# A call that is longer is shown as the text that it begins with: to look through all of it would hold up everybody.
_READ_CHARS = 400_000
_ITEMS = 50
# What a kind of call comes to here; of those that are not named it is not known how far they reach.
_USES: dict[acp.ToolKind, str] = dict.fromkeys(("read", "edit", "delete", "move", "search"), "host_files")
_ANYTHING = "shell"
_YES: tuple[acp.PermissionKind, ...] = ("allow_once", "allow_always")
_NO: tuple[acp.PermissionKind, ...] = ("reject_once",)

log = get_logger(__name__)

_JOINED_CHARS = 4_096


def choose_option(options: Sequence[acp.PermissionOption], *, granted: bool) -> acp.RequestPermissionResponse:
    """Return the answer for the agent, by the kind of its options alone: their names may say anything.

    If it offers no option of that kind, the call is cancelled.
    """
    for kind in _YES if granted else _NO:
        for option in options:
            if option.kind == kind:
                return acp.RequestPermissionResponse(outcome=acp.Selected(option_id=option.option_id))
    return CANCELLED


CANCELLED = acp.RequestPermissionResponse(outcome=acp.Cancelled())


def required_use(kind: acp.ToolKind, options: Sequence[acp.PermissionOption]) -> str:
    """Return which use a yes to such a call grants, as the table of least roles names it."""
    # Of a yes for good nobody knows what comes under it later.
    return _ANYTHING if is_permanent(options) else _USES.get(kind, _ANYTHING)


def is_permanent(options: Sequence[acp.PermissionOption]) -> bool:
    """Return whether a yes would hold for more than this call: the agent offers nothing less."""
    kinds = {option.kind for option in options}
    return "allow_always" in kinds and "allow_once" not in kinds


def offers_allow(options: Sequence[acp.PermissionOption]) -> bool:
    """Return whether any option allows the call."""
    return any(option.kind in _YES for option in options)


def answer_by_rule(
    permissions: Permissions, options: Sequence[acp.PermissionOption], *, is_enough: bool
) -> acp.RequestPermissionResponse | None:
    """Return the answer that the owner's rule gives; None if a person must be asked.

    `is_enough`: whether the people of the turn may do this. A rule never allows what they may not.
    """
    if permissions == "ask" or (permissions == "allow" and not is_enough):
        return None
    return choose_option(options, granted=permissions == "allow")


def build_question(ask_id: str, call: KnownCall, options: Sequence[acp.PermissionOption]) -> AskPermission:
    """Return the question for people. The agent's names for its options are not in it."""
    arguments, is_cut = _arguments(call)
    diffs, is_less = call.changes()
    return AskPermission(
        ask_id=ask_id,
        tool=texts.TOOLS[call.kind],
        arguments=arguments,
        reason=" ".join(_reasons(is_for_good=is_permanent(options), is_cut=is_cut or is_less)),
        least=TOOLS[required_use(call.kind, options)],
        call=_told(call, arguments),
        diffs=diffs,
        is_for_good=is_permanent(options),
    )


def _reasons(*, is_for_good: bool, is_cut: bool) -> Iterator[str]:
    yield texts.ASK_REASON
    if is_for_good:
        yield texts.ASK_FOR_GOOD
    if is_cut:
        yield texts.ASK_CUT


def _told(call: KnownCall, arguments: str) -> ToolCall:
    """Return the call as announced; if the agent says more of it, with the arguments that people are shown."""
    told = call.event()
    is_all = len(call.input) <= INPUT_CHARS and told.title == call.title.strip() and not _texts(call)
    return told if is_all else msgspec.structs.replace(told, arguments=arguments)


def _texts(call: KnownCall) -> list[str]:
    return [said for one in call.content if isinstance(one, acp.ContentPart) and (said := text_of(one.content))]


def _arguments(call: KnownCall) -> tuple[str, bool]:
    """Return all that is known of the call, as JSON, and whether something is left out."""
    told = _known(call)
    is_whole = all(len(value) <= _ITEMS for value in told.values() if isinstance(value, list))
    told = {name: value[:_ITEMS] if isinstance(value, list) else value for name, value in told.items()}
    shorter = ""
    is_short = call.weight <= _READ_CHARS
    text = _written(told) if is_short else ""
    if is_short and len(text) <= _ASK_CHARS:
        return text, not is_whole
    for most in _CUTS:
        shorter = _written(_cut(told, most))
        if len(shorter) <= _ASK_CHARS:
            return shorter, True
    # Thousands of short values: nobody reads them either.
    text = text or call.input or shorter
    title = _cut(call.title, _CUTS[-1])
    return _written({"title": title, "input": text[: _ASK_CHARS // 2] + _more(text)}), True


def _known(call: KnownCall) -> dict[str, object]:
    """Return what the agent says of the call, wherever it says it: some put what they are about to do into the title alone."""
    given = _decoded(call.input) if call.input else None
    told: dict[str, object] = {
        "title": call.title.strip(),
        "input": given,
        "text": _texts(call),
        "files": [one.path for one in call.locations],
        "changes": [
            {"path": one.path, "old": one.old_text, "new": one.new_text}
            for one in call.content
            if isinstance(one, acp.Diff) and not _has_all(given, (one.path, one.old_text, one.new_text))
        ],
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def _has_all(given: object, texts: Sequence[str | None]) -> bool:
    """Return whether the input contains the same values, so that they need not be shown twice."""
    values = list(given.values()) if isinstance(given, dict) else []
    return all(text in values for text in texts if text is not None)


def _decoded(text: str) -> object:
    if len(text) > _READ_CHARS:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _cut(value: object, most: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= most else value[:most] + texts.CUT.format(count=len(value) - most)
    if isinstance(value, dict):
        return {name: _cut(inner, most) for name, inner in value.items()}
    return [_cut(inner, most) for inner in value] if isinstance(value, list) else value


def _more(text: str) -> str:
    return texts.CUT.format(count=len(text) - _ASK_CHARS // 2)


def _written(value: object) -> str:
    """Return JSON on several lines. Everything that a chat could take for more than text is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (RecursionError, ValueError):
        return "{}"


class PermissionQuestion:
    """A permission request of the agent, and its answer."""

    def __init__(self, ask: AskPermission, options: tuple[acp.PermissionOption, ...]) -> None:
        self.ask = ask
        self._options = options
        self.reply: asyncio.Future[acp.RequestPermissionResponse] = asyncio.get_running_loop().create_future()

    def answer(self, *, granted: bool) -> None:
        """Give the agent a person's answer."""
        self._give(choose_option(self._options, granted=granted))

    def cancel(self) -> None:
        """Cancel the request: nobody will answer it."""
        self._give(CANCELLED)

    def _give(self, answer: acp.RequestPermissionResponse) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)


class PromptEnded(msgspec.Struct, frozen=True):
    """The agent has answered the prompt."""

    response: acp.PromptResponse


Item: TypeAlias = Translated | PermissionQuestion | PromptEnded | AgentError
Start: TypeAlias = Callable[[str, Coroutine[Any, Any, None]], object]


class PromptRun:
    """A prompt from the moment it is sent until the agent has answered it, or has ended.

    Events are queued until the turn takes them, and joined where possible. A prompt that exceeds the limits of a turn is cancelled.
    """

    def __init__(
        self,
        config: AcpAgentConfig,
        limits: AcpLimits,
        role: Role,
        is_shared: bool,
        start: Start,
        tell_cancel: Callable[[], None],
        kill: Callable[[], Awaitable[None]],
    ) -> None:
        """`tell_cancel` sends the agent a cancel, `kill` ends its process.

        `role` is the least role of those who prompt; `is_shared`: others prompt the same agent too.
        """
        self._config = config
        self._limits = limits
        self._role = role
        self._is_shared = is_shared
        self._start = start
        self._tell_cancel = tell_cancel
        self._kill = kill
        self._translator = UpdateTranslator(limits)
        self._items: deque[Item] = deque()
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._questions: list[PermissionQuestion] = []
        self._asked = 0
        self._noticed: set[str] = set()
        self._is_cancelled = False
        # Nothing more is taken in: the turn has failed.
        self._is_failed = False

    @property
    def is_over(self) -> bool:
        """Return whether the agent has finished the prompt."""
        return self._over.is_set()

    @property
    def is_failed(self) -> bool:
        """Return whether the prompt has failed: only its error is left in the queue."""
        return self._is_failed

    async def over(self) -> None:
        """Wait until the agent has finished the prompt."""
        await self._over.wait()

    async def next(self) -> Item:
        """Return the next event. Nothing follows `PromptEnded` or an error."""
        while not self._items:
            self._ready.clear()
            await self._ready.wait()
        return self._items.popleft()

    def requeue(self, item: Item) -> None:
        """Put an event back: `next` returns it once more."""
        self._items.appendleft(item)
        self._ready.set()

    def take(self, update: acp.Update) -> None:
        """Process an update of the agent."""
        if self._is_failed or self.is_over:
            return
        try:
            for told in self._translator.translate(update):
                self._add(told)
        except TurnTooLarge:
            self._break_off()

    def ask(self, params: acp.RequestPermissionRequest) -> Awaitable[acp.RequestPermissionResponse]:
        """Process a permission request; return an awaitable of its answer."""
        if self._is_cancelled or self._is_failed or self.is_over:
            return _given(CANCELLED)
        answer = answer_by_rule(self._config.permissions, params.options, is_enough=self._is_enough(params))
        if answer is None and not offers_allow(params.options):
            self._tell_once(texts.NO_YES)
            answer = choose_option(params.options, granted=False)
        try:
            call, told = self._translator.ask(params.tool_call, is_put=answer is None)
        except TurnTooLarge:
            self._break_off()
            return _given(CANCELLED)
        for one in told:
            self._add(one)
        if answer is not None:
            return _given(answer)
        if len(self._questions) >= self._limits.questions:
            self._tell_once(texts.NOT_WHOLE)
            return _given(choose_option(params.options, granted=False))
        self._asked += 1
        question = PermissionQuestion(build_question(f"acp-{self._asked}", call, params.options), params.options)
        try:
            self._translator.asked(question.ask)
        except TurnTooLarge:
            self._break_off()
            return _given(CANCELLED)
        self._questions.append(question)
        question.reply.add_done_callback(lambda _: self._questions.remove(question))
        self._add(question)
        return question.reply

    def end(self, response: acp.PromptResponse) -> None:
        """Record the agent's answer to the prompt."""
        if not self._is_failed:
            for told in self._translator.end():
                self._add(told)
            self._add(PromptEnded(response))
        self._finish()

    def fail(self, error: AgentError) -> None:
        """Record that the agent will not answer the prompt."""
        if self.is_over:
            return
        if not self._is_failed:
            self._is_failed = True
            self._add(error)
        self._finish()

    def cancel(self) -> None:
        """Send a cancel, drop open questions, and end the agent if it does not stop in time.

        Never waits. Does nothing if the prompt is finished.
        """
        if self._is_cancelled or self.is_over:
            return
        self._is_cancelled = True
        self._drop_questions()
        self._tell_cancel()
        self._start("acp.cancel", self._see_to_its_end())

    def _is_enough(self, params: acp.RequestPermissionRequest) -> bool:
        """Return whether the people who prompt may do this. A permanent yes would hold for all who share the agent."""
        if self._is_shared and is_permanent(params.options):
            return False
        return may_use(self._role, required_use(self._translator.kind_of(params.tool_call), params.options))

    async def _see_to_its_end(self) -> None:
        try:
            async with asyncio.timeout(self._limits.cancel):
                await self._over.wait()
        except TimeoutError:
            log.warning("acp.not_cancelled", agent=self._config.name)
            await self._kill()

    def _tell_once(self, notice: str) -> None:
        if notice not in self._noticed:
            self._noticed.add(notice)
            self._add(Notice(notice))

    def _break_off(self) -> None:
        self._is_failed = True
        self._translator = UpdateTranslator(self._limits)
        self._add(AgentError(texts.TOO_MUCH.format(agent=self._config.name)))
        self.cancel()

    def _finish(self) -> None:
        self._over.set()
        # What is known of its calls is known for nobody any more.
        self._translator = UpdateTranslator(self._limits)
        self._drop_questions()

    def _drop_questions(self) -> None:
        for question in list(self._questions):
            question.cancel()

    def _add(self, item: Item) -> None:
        joined = _joined(self._items[-1], item) if self._items else None
        if joined is None:
            self._items.append(item)
        else:
            self._items[-1] = joined
        self._ready.set()


def _joined(last: Item, item: Item) -> Item | None:
    """Return both events as one, if nothing is lost by it."""
    if isinstance(last, Text) and isinstance(item, Text) and len(last.text) < _JOINED_CHARS:
        return Text(last.text + item.text)
    if isinstance(last, Thought) and isinstance(item, Thought) and len(last.text) < _JOINED_CHARS:
        return Thought(last.text + item.text)
    return item if isinstance(last, Plan) and isinstance(item, Plan) else None


def _given(answer: acp.RequestPermissionResponse) -> Awaitable[acp.RequestPermissionResponse]:
    given: asyncio.Future[acp.RequestPermissionResponse] = asyncio.get_running_loop().create_future()
    given.set_result(answer)
    return given
