"""Convert histories and files to the messages of the model library, and back.

A stored history may hold anything. The result is always accepted by providers: unknown roles are left out, every tool result
follows its call, every call has a result, and the first message is never the model's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from threadline.errors import UnknownFile
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Message, text_of
from threadline.model.safe_text import safe_line
from threadline.ports.agent import Turn

NO_RESULT = "(There is no result of this call.)"
NO_TEXT = "(This message has no text.)"
MODEL_FIRST = "(The conversation begins with a message of yours.)"

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml"}
)
_MAX_PICTURE_BYTES = 5_000_000
_MAX_TEXT_BYTES = 200_000
_NAME_CHARS = 120


def to_model_messages(history: Sequence[Message], text: str, files: Sequence[UserContent] = ()) -> list[ModelMessage]:
    """Return the messages of a request: the history, then `text` with its files."""
    builder = _MessageBuilder()
    for message in history:
        builder.add(message)
    prompt = clean(text) if text.strip() else NO_TEXT
    # One text stays a plain string: some servers that speak a provider's protocol know no other form.
    builder.add_request(
        UserPromptPart([prompt, *(clean(f) if isinstance(f, str) else f for f in files)] if files else prompt)
    )
    return builder.messages


def from_model_messages(messages: Sequence[ModelMessage]) -> list[Message]:
    """Return the messages in chat-completions form, without thoughts and files."""
    return [plain for message in messages for plain in _plain_messages(message)]


def last_messages(history: Sequence[Message], limit: int | None) -> Sequence[Message]:
    """Return at most the last `limit` messages, starting at a user message: a tool result without its call is of no use."""
    if limit is None or len(history) <= limit:
        return history
    starts = range(len(history) - limit, len(history))
    return history[next((place for place in starts if history[place].get("role") == "user"), len(history)) :]


def clean(text: str) -> str:
    """Return `text` without lone surrogates, which no request can carry."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


class _MessageBuilder:
    """Builds the alternating requests and responses."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._open_calls: dict[str, str] = {}

    def add(self, message: Message) -> None:
        role, text = message.get("role"), clean(text_of(message.get("content")))
        if role == "tool":
            self._add_result(message.get("tool_call_id"), text)
        elif role == "assistant":
            self._add_response(_with_files(text, message), list(_calls_of(message)))
        elif role == "user":
            if content := _with_files(text, message):
                self.add_request(UserPromptPart(content))
        elif role in ("system", "developer") and text.strip():
            self.add_request(SystemPromptPart(text))

    def add_request(self, part: ModelRequestPart) -> None:
        self._close_calls()
        self._put_request(part)

    def _add_result(self, call_id: object, text: str) -> None:
        known = clean(call_id) if isinstance(call_id, str) else ""
        if (name := self._open_calls.pop(known, None)) is not None:
            self._put_request(ToolReturnPart(name, text, tool_call_id=known))

    def _add_response(self, text: str, calls: list[ToolCallPart]) -> None:
        parts: list[ModelResponsePart] = [TextPart(text)] if text.strip() else []
        if not parts and not calls:
            return
        self._close_calls()
        if not self.messages:
            self._put_request(UserPromptPart(MODEL_FIRST))
        last = self.messages[-1]
        before = list(last.parts) if isinstance(last, ModelResponse) else []
        response = ModelResponse([*before, *parts, *calls])
        self.messages[-1 if isinstance(last, ModelResponse) else len(self.messages) :] = [response]
        self._open_calls = {call.tool_call_id: call.tool_name for call in calls}

    def _close_calls(self) -> None:
        for call_id, name in self._open_calls.items():
            self._put_request(ToolReturnPart(name, NO_RESULT, tool_call_id=call_id, outcome="interrupted"))
        self._open_calls = {}

    def _put_request(self, part: ModelRequestPart) -> None:
        if self.messages and isinstance(last := self.messages[-1], ModelRequest):
            self.messages[-1] = ModelRequest([*last.parts, part])
        else:
            self.messages.append(ModelRequest([part]))


def _with_files(text: str, message: Message) -> str:
    """Return the text of a message, with a line for each of its files."""
    return "\n".join(part for part in (text, clean(file_names_line(attachments_of(message)))) if part.strip())


def _calls_of(message: Message) -> Iterator[ToolCallPart]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        call_id, name = call.get("id"), function.get("name")
        if isinstance(call_id, str) and isinstance(name, str) and call_id and name:
            yield ToolCallPart(clean(name), _arguments(function.get("arguments")), clean(call_id))


def _arguments(written: object) -> str:
    """Return the arguments of a tool call as JSON; anything but an object that a request can carry becomes an empty object."""
    try:
        value = json.loads(written) if isinstance(written, str) else written
        plain = json.dumps(value, ensure_ascii=False, allow_nan=False)
        plain.encode()
    except (ValueError, TypeError, RecursionError):
        return "{}"
    if not isinstance(value, dict):
        return "{}"
    return written if isinstance(written, str) else plain


def _plain_messages(message: ModelMessage) -> Iterator[Message]:
    if isinstance(message, ModelResponse):
        if (spoken := _plain_response(message)) is not None:
            yield spoken
        return
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            content = part.model_response_str()
            yield {"role": "tool", "tool_call_id": part.tool_call_id, "tool_name": part.tool_name, "content": content}
        elif isinstance(part, UserPromptPart):
            blocks = [part.content] if isinstance(part.content, str) else part.content
            yield {"role": "user", "content": "\n".join(block for block in blocks if isinstance(block, str))}
        elif isinstance(part, SystemPromptPart):
            yield {"role": "system", "content": part.content}


def _plain_response(message: ModelResponse) -> Message | None:
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {
                "name": part.tool_name,
                "arguments": part.args if isinstance(part.args, str) else part.args_as_json_str(),
            },
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    if not text and not calls:
        return None
    return {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


async def file_parts(turn: Turn) -> list[UserContent]:
    """Return the files of a turn as content for a model, in their order: pictures and text, for other files a line."""
    files = [file for spoken in turn.messages for file in spoken.attachments]
    return [part for file in files for part in await _parts_of_file(turn, file)]


def file_names_line(files: Sequence[Attachment]) -> str:
    """Return a line for each file of an earlier message; the content of such a file is not sent again."""
    return "\n".join(f"[file: {quoted_file_name(file)}]" for file in files)


def quoted_file_name(file: Attachment) -> str:
    """Return the name of a file for a model. It is untrusted: quoted, on one line, and of bounded length."""
    return json.dumps(safe_line(file.name, _NAME_CHARS) or "without a name", ensure_ascii=False)


async def _parts_of_file(turn: Turn, file: Attachment) -> list[UserContent]:
    limit = _max_bytes(file.mime)
    if limit is None or (file.size or 0) > limit:
        return [f"[file: {quoted_file_name(file)}, which can't be shown here]"]
    try:
        body = await turn.fetch(file)
        if file.mime in PICTURES and len(body) <= limit:
            return [f"[file: {quoted_file_name(file)}]", BinaryContent(body, media_type=file.mime)]
        text = body[:limit].decode() if file.mime not in PICTURES else None
    except (UnknownFile, UnicodeDecodeError):
        text = None
    if text is None:
        return [f"[file: {quoted_file_name(file)}, which can't be shown here]"]
    return [f"[file: {quoted_file_name(file)}]\n{text}\n[end of file]"]


def _max_bytes(mime: str) -> int | None:
    if mime in PICTURES:
        return _MAX_PICTURE_BYTES
    return _MAX_TEXT_BYTES if mime.startswith("text/") or mime in _TEXTS else None
