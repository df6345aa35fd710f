"""A provider of models on this machine, for tests: real requests over real sockets, and answers from a script.

    with ModelServer(Says("Good ", "morning")) as server:
        agent = ModelAgent(AgentSetup(kind="model", model="openai:gpt-5", base_url=server.openai_url))

It speaks the streamed protocols of OpenAI (chat-completions and responses) and of Anthropic (messages).
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, TypeAlias

import msgspec

from threadline.model.message import text_of

_LOOK_EVERY = 0.02
_MADE_AT = 1_780_000_000


class Asked(msgspec.Struct, frozen=True):
    """One request as it arrived. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def key(self) -> str:
        """The key that was sent, in whichever way."""
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said, without instructions."""
        spoken = self.body.get("messages") or self.body.get("input") or []
        return [message for message in spoken if message.get("role") not in ("system", "developer")]

    @property
    def text(self) -> str:
        """The last thing that the user said."""
        return text_of(self.messages[-1].get("content"))

    @property
    def instructions(self) -> str:
        """What the model was told before everything else."""
        spoken = self.body.get("messages") or self.body.get("input") or []
        told = [text_of(message["content"]) for message in spoken if message.get("role") in ("system", "developer")]
        return "\n".join(filter(None, [text_of(self.body.get("system") or self.body.get("instructions")), *told]))


class Says(msgspec.Struct, frozen=True):
    """An answer, a piece at a time. Input tokens do not count what was cached."""

    pieces: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    finish: Literal["stop", "length", "refused"] = "stop"
    # The connection is cut after the pieces.
    breaks_off: bool = False
    # After the first piece it waits for `ModelServer.release`, or for the caller to go away.
    is_held: bool = False


class Fails(msgspec.Struct, frozen=True):
    """A refusal. `code` is OpenAI's code or Anthropic's type of the error."""

    status: int
    code: str = ""
    message: str = "Of what you asked, this is refused."
    headers: Mapping[str, str] = {}


Reply: TypeAlias = Says | Fails
Script: TypeAlias = Reply | Callable[[Asked], Reply]


class ModelServer:
    """Answers on 127.0.0.1, each request with the next reply; the last one stays. Without any, it repeats what was said.

    With a `key`, another one is refused. `requests` are those that arrived, over so many `connections_made`; `hung_up` is set
    once a caller went away in the middle of an answer.
    """

    def __init__(self, *script: Script, key: str | None = None) -> None:
        self._script = [*script] or [lambda asked: Says((asked.text,))]
        self._key = key
        self._lock = threading.Lock()
        self.requests: list[Asked] = []
        self.connections_made = 0
        self.hung_up = threading.Event()
        self._released = threading.Event()
        self._server = _Listener(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_EVERY,), daemon=True)

    @property
    def url(self) -> str:
        """Where Anthropic's protocol is spoken."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """Where OpenAI's protocols are spoken."""
        return f"{self.url}/v1"

    def release(self) -> None:
        """Lets held answers go on."""
        self._released.set()

    def reply_to(self, asked: Asked) -> Reply:
        """Takes note of the request, and the next reply from the script."""
        with self._lock:
            self.requests.append(asked)
            if self._key is not None and asked.key != self._key:
                return Fails(401, "authentication_error" if asked.path.endswith("/messages") else "invalid_api_key")
            script = self._script[0] if len(self._script) == 1 else self._script.pop(0)
        return script(asked) if callable(script) else script

    def wait_for_release(self, is_gone: Callable[[], bool]) -> bool:
        """Whether the answer may go on; not, where the caller has gone."""
        while not self._released.wait(_LOOK_EVERY):
            if is_gone():
                self.hung_up.set()
                return False
        return True

    def close(self) -> None:
        """Stops, and cuts every connection."""
        self.release()
        self._server.shutdown()
        self._server.cut_connections()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, owner: ModelServer) -> None:
        self.owner = owner
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Connection)

    def cut_connections(self) -> None:
        for connection in list(self.connections):
            _cut(connection)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.server.owner.connections_made += 1
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, json.loads(self.rfile.read(length)))
        reply = self.server.owner.reply_to(asked)
        try:
            if isinstance(reply, Fails):
                self._refuse(reply)
            else:
                self._stream(asked, reply)
        except (BrokenPipeError, ConnectionResetError):
            self.server.owner.hung_up.set()
            self.close_connection = True

    def _refuse(self, reply: Fails) -> None:
        error = {"type": reply.code or "error", "code": reply.code or None, "message": reply.message}
        body = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(reply.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, asked: Asked, reply: Says) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        before, pieces, after = _PROTOCOLS[asked.path.rpartition("/")[2]](str(asked.body["model"]), reply)
        self._send(before)
        for place, piece in enumerate(pieces):
            self._send([piece])
            if place == 0 and reply.is_held and not self.server.owner.wait_for_release(self._is_gone):
                self.close_connection = True
                return
        if reply.breaks_off:
            self.close_connection = True
            _cut(self.connection)
            return
        self._send(after)
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, lines: Iterable[str]) -> None:
        for line in lines:
            encoded = line.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(encoded), encoded))

    def _is_gone(self) -> bool:
        try:
            peeked: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not peeked


# What comes before the first piece of text, the pieces, and what comes after them.
_Stream: TypeAlias = tuple[Iterable[str], Iterable[str], Iterable[str]]


def _chat(model: str, says: Says) -> _Stream:
    def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        base = {"id": "chat-1", "object": "chat.completion.chunk", "created": _MADE_AT, "model": model}
        return _line(base | {"choices": choices} | more)

    prompt = says.input_tokens + says.cached_tokens
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": says.output_tokens,
        "total_tokens": prompt + says.output_tokens,
        "prompt_tokens_details": {"cached_tokens": says.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": says.reasoning_tokens},
    }
    finish = {"refused": "content_filter"}.get(says.finish, says.finish)
    return (
        [chunk({"role": "assistant", "reasoning_content": thought}) for thought in says.thoughts],
        [chunk({"role": "assistant", "content": piece}) for piece in says.pieces],
        [chunk({}, finish), chunk(usage=usage), "data: [DONE]\n\n"],
    )


def _responses(model: str, says: Says) -> _Stream:
    numbers = iter(range(1_000_000))

    def event(kind: str, **fields: Any) -> str:
        return _line({"type": kind, "sequence_number": next(numbers)} | fields, event=kind)

    def response(status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        base = {"id": "resp-1", "object": "response", "created_at": _MADE_AT, "model": model, "status": status}
        shape = {"output": output, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
        return base | shape | {"error": None, "incomplete_details": None, "usage": None} | more

    place = {"item_id": "msg-1", "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg-1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    ends = {"length": "max_output_tokens", "refused": "content_filter"}
    more = {"usage": _responses_usage(says)}
    if says.finish in ends:
        more["incomplete_details"] = {"reason": ends[says.finish]}
    full = item | {"status": "completed", "content": [empty | {"text": "".join(says.pieces)}]}
    status = "incomplete" if says.finish in ends else "completed"
    return (
        [
            event("response.created", response=response("in_progress", [])),
            event("response.output_item.added", output_index=0, item=item),
            event("response.content_part.added", part=empty, **place),
        ],
        (event("response.output_text.delta", delta=piece, logprobs=[], **place) for piece in says.pieces),
        (event(f"response.{status}", response=response(status, [full], **more)) for _ in range(1)),
    )


def _responses_usage(says: Says) -> dict[str, Any]:
    prompt = says.input_tokens + says.cached_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": says.cached_tokens},
        "output_tokens": says.output_tokens,
        "output_tokens_details": {"reasoning_tokens": says.reasoning_tokens},
        "total_tokens": prompt + says.output_tokens,
    }


def _anthropic(model: str, says: Says) -> _Stream:
    def event(kind: str, **fields: Any) -> str:
        return _line({"type": kind} | fields, event=kind)

    def deltas(index: int, deltas: Iterable[Mapping[str, str]]) -> Iterator[str]:
        return (event("content_block_delta", index=index, delta=delta) for delta in deltas)

    usage = {
        "input_tokens": says.input_tokens,
        "cache_read_input_tokens": says.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {"id": "msg-1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    before = [event("message_start", message=message | {"stop_reason": None, "stop_sequence": None})]
    if says.thoughts:
        thinking = {"type": "thinking", "thinking": "", "signature": ""}
        before += [event("content_block_start", index=0, content_block=thinking)]
        before += deltas(0, [{"type": "thinking_delta", "thinking": thought} for thought in says.thoughts])
        before += [event("content_block_stop", index=0)]
    index = 1 if says.thoughts else 0
    before += [event("content_block_start", index=index, content_block={"type": "text", "text": ""})]
    reason = {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}[says.finish]
    delta = {"stop_reason": reason, "stop_sequence": None}
    return (
        before,
        deltas(index, [{"type": "text_delta", "text": piece} for piece in says.pieces]),
        [
            event("content_block_stop", index=index),
            event("message_delta", delta=delta, usage={"output_tokens": says.output_tokens}),
            event("message_stop"),
        ],
    )


_PROTOCOLS: Mapping[str, Callable[[str, Says], _Stream]] = {
    "completions": _chat,
    "responses": _responses,
    "messages": _anthropic,
}


def _line(content: Mapping[str, Any], *, event: str | None = None) -> str:
    named = "" if event is None else f"event: {event}\n"
    return f"{named}data: {json.dumps(content)}\n\n"


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It was cut from the other side already.
        return
