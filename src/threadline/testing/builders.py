"""Sources and messages in few words, for tests that are about something else."""

from __future__ import annotations

import json
from typing import Any

from threadline.model.message import Message
from threadline.model.source import ChatType, SessionSource


def dm(person: str = "7", *, platform: str = "telegram", thread: str | None = None, **more: Any) -> SessionSource:
    """A direct chat with `person`, or a thread in it. `more` sets any other field of the source."""
    fields: dict[str, Any] = {"chat_id": f"dm-{person}", "user_id": person} | more
    return SessionSource(platform=platform, chat_type="dm", thread_id=thread, **fields)


def group(
    person: str = "7",
    chat: str = "g1",
    *,
    platform: str = "telegram",
    chat_type: ChatType = "group",
    **more: Any,
) -> SessionSource:
    """What `person` writes in a group: by default each member has a conversation of their own there."""
    return SessionSource(platform=platform, chat_type=chat_type, chat_id=chat, user_id=person, **more)


def thread(person: str = "7", chat: str = "g1", name: str = "t1", **more: Any) -> SessionSource:
    """What `person` writes in a thread of a group: by default shared by all who write there."""
    return group(person, chat, thread_id=name, **more)


def user(text: str, **more: Any) -> Message:
    """A user's message."""
    return {"role": "user", "content": text, **more}


def assistant(text: str, **more: Any) -> Message:
    """The agent's message."""
    return {"role": "assistant", "content": text, **more}


def system(text: str, **more: Any) -> Message:
    """An instruction."""
    return {"role": "system", "content": text, **more}


def exchange(question: str, answer: str) -> list[Message]:
    """A question and its answer."""
    return [user(question), assistant(answer)]


def tool_call(name: str, arguments: dict[str, Any], *, call_id: str = "call-1") -> Message:
    """The agent asks for a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool_result(text: str, *, call_id: str = "call-1", name: str | None = None) -> Message:
    """What the tool answered."""
    named = {} if name is None else {"tool_name": name}
    return {"role": "tool", "tool_call_id": call_id, "content": text, **named}


def tool_use(name: str, arguments: dict[str, Any], result: str, *, call_id: str = "call-1") -> list[Message]:
    """A tool call and its result, which belong together."""
    return [tool_call(name, arguments, call_id=call_id), tool_result(result, call_id=call_id, name=name)]
