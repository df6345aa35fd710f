"""What a turn's events come to: messages for the transcript, a text for the chat, a sum of usage. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from threadline.model.files import with_files
from threadline.model.inbound import Attachment
from threadline.model.message import Message
from threadline.model.usage import Usage
from threadline.ports.agent import Event, File, Plan, Text, Thought, ToolCall, ToolResult, UsageOf

_BETWEEN_STEPS = "\n\n"


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, as far as it has come."""

    messages: tuple[Message, ...]
    usage: Usage | None


class _Step:
    """What the agent says and calls before it waits for results."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []
        self.files: list[Attachment] = []

    @property
    def text(self) -> str:
        return "".join(self.said)

    def message(self) -> Message | None:
        text, thought = self.text, "".join(self.thoughts)
        # Thoughts alone are kept too: somebody may have seen them before the turn broke off.
        if not (text or thought or self.calls or self.files):
            return None
        message = with_files({"role": "assistant", "content": text or None}, self.files)
        if thought:
            message["reasoning"] = thought
        if self.calls:
            message["tool_calls"] = [_call(call) for call in self.calls]
        return message


def fold(events: Iterable[Event], *, unfinished: str) -> Folded:
    """The turn that these events make. A tool call is never without its result: one that is missing is `unfinished`.

    Results stand right behind the calls that they belong to, whatever came in between: models refuse anything else.
    """
    seen = list(events)
    if all(isinstance(event, Text) for event in seen):
        # So it is with most turns.
        said = _steps(seen)[0].message()
        return Folded(messages=() if said is None else (said,), usage=None)
    results = iter(_results(seen))
    messages: list[Message] = []
    for step in _steps(seen):
        message = step.message()
        if message is not None:
            messages.append(message)
        messages += [_result(call, next(results), unfinished) for call in step.calls]
    _keep_plan(messages, seen)
    return Folded(messages=tuple(messages), usage=_usage(seen))


def shown_text(events: Iterable[Event]) -> str:
    """What the chat shows of these events: what was said, a paragraph for each step."""
    texts = (step.text for step in _steps(events))
    return _BETWEEN_STEPS.join(text.strip("\n") for text in texts if text.strip())


def sent_files(events: Iterable[Event]) -> list[Attachment]:
    """The files among these events, in their order."""
    return [event.attachment for event in events if isinstance(event, File)]


def _steps(events: Iterable[Event]) -> list[_Step]:
    steps = [_Step()]
    has_results = False
    for event in events:
        if isinstance(event, ToolResult):
            has_results = True
        elif isinstance(event, (Text, Thought, ToolCall, File)):
            if has_results:
                steps.append(_Step())
                has_results = False
            _add(steps[-1], event)
    return steps


def _results(events: Iterable[Event]) -> list[ToolResult | None]:
    """What each call gave back, in the order of the calls. An id may come again: then it stands for another call."""
    found: list[ToolResult | None] = []
    meant: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, ToolCall):
            places = meant.setdefault(event.call_id, [])
            if places and found[places[-1]] is not None:
                places.clear()
            places.append(len(found))
            found.append(None)
        elif isinstance(event, ToolResult):
            for place in meant.get(event.call_id, ()):
                found[place] = event
    return found


def _add(step: _Step, event: Text | Thought | ToolCall | File) -> None:
    if isinstance(event, Text):
        step.said.append(event.text)
    elif isinstance(event, Thought):
        step.thoughts.append(event.text)
    elif isinstance(event, File):
        step.files.append(event.attachment)
    else:
        step.calls.append(event)


def _call(call: ToolCall) -> dict[str, object]:
    """The call as models know it, and what people are shown of it besides."""
    kept: dict[str, object] = {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    shown = {"title": call.title, "places": msgspec.to_builtins(call.places)}
    kept.update({name: value for name, value in shown.items() if value})
    if call.kind != "other":
        kept["kind"] = call.kind
    return kept


def _result(call: ToolCall, result: ToolResult | None, unfinished: str) -> Message:
    content = unfinished if result is None else result.content
    message: Message = {"role": "tool", "tool_call_id": call.call_id, "tool_name": call.name, "content": content}
    if result is not None and result.diffs:
        message["diffs"] = msgspec.to_builtins(result.diffs)
    if result is None or result.is_error:
        message["is_error"] = True
    return message


def _keep_plan(messages: list[Message], events: Iterable[Event]) -> None:
    """The last plan of a turn stays with the last that the agent said, or by itself where it said nothing."""
    plans = [event for event in events if isinstance(event, Plan)]
    if not plans:
        return
    if not messages:
        messages.append({"role": "assistant", "content": None})
    said = [message for message in messages if message["role"] == "assistant"]
    said[-1]["plan"] = msgspec.to_builtins(plans[-1].steps)


def _usage(events: Iterable[Event]) -> Usage | None:
    parts = [event for event in events if isinstance(event, UsageOf)]
    if not parts:
        return None
    last = parts[-1]
    return Usage(
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cache_read_tokens=sum(part.cache_read_tokens for part in parts),
        cache_write_tokens=sum(part.cache_write_tokens for part in parts),
        reasoning_tokens=sum(part.reasoning_tokens for part in parts),
        last_prompt_tokens=last.prompt_tokens,
        cost_micros=sum(part.cost_micros for part in parts),
        cost_status=last.cost_status,
        model=last.model,
    )
