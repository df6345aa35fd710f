"""Export transcripts as JSON lines, Markdown or HTML, in pages. Untrusted text never becomes structure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.files import attachments_of
from threadline.model.message import TranscriptMessage, encode_message
from threadline.model.safe_text import safe_line, safe_text
from threadline.model.session import SessionEntry
from threadline.store.facade import SessionStore

Format: TypeAlias = Literal["jsonl", "markdown", "html"]
Writer: TypeAlias = Callable[[SessionEntry, Iterable[TranscriptMessage]], Iterator[str]]

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_BACKTICKS = re.compile("`+")

_STYLE = """
:root { color-scheme: light dark; --quiet: #667; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem; }
h1 { font-size: 1.4rem; } p.about, header { color: var(--quiet); font-size: .85rem; }
article { border-top: 1px solid var(--line); padding: .75rem 0; } header b { color: CanvasText; }
pre { font: inherit; white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0 0; }
pre.call, pre.other { font: .85rem/1.4 ui-monospace, monospace; background: var(--soft); padding: .5rem; }
"""

Kind: TypeAlias = Literal["text", "call", "other"]

T = TypeVar("T")

PAGE = 500


def jsonl(_entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """Yield one message a line, exactly as stored."""
    for message in messages:
        yield encode_message(message.message).body + "\n"


def markdown(entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """Yield a Markdown document. Headings are ours; all untrusted text stands in a fence that it can't close."""
    yield f"# {_escape_markdown(_name(entry))}\n\n{_escape_markdown(_about(entry))}\n"
    for message in messages:
        role, beside = _heading(message)
        yield f"\n## {_escape_markdown(role)}\n\n{_escape_markdown(beside)}\n"
        for part in readable_parts(message.message):
            yield _fenced(safe_text(part.text), "text" if part.kind == "text" else "tool")


def html(entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """Yield an HTML page without scripts or external resources, and with a policy that forbids both."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    name = escape(safe_line(_name(entry)))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1 dir="auto">{name}</h1>\n<p class="about">{escape(safe_line(_about(entry), 400))}</p>\n'
    )
    for message in messages:
        role, beside = (escape(safe_line(text)) for text in _heading(message))
        yield f"<article>\n<header><b>{role}</b> {beside}</header>\n"
        for part in readable_parts(message.message):
            # HTML drops the first line break after <pre>, so one is added.
            yield f'<pre class="{part.kind}" dir="auto">\n{escape(safe_text(part.text))}</pre>\n'
        yield "</article>\n"
    yield "</body>\n</html>\n"


WRITERS: dict[Format, Writer] = {"jsonl": jsonl, "markdown": markdown, "html": html}


def _name(entry: SessionEntry) -> str:
    return entry.title or entry.display_name or entry.origin.description


def _about(entry: SessionEntry) -> str:
    place = f"{entry.platform}, {entry.origin.description}"
    return f"Session {entry.session_id}, {place}, started {entry.created_at:%Y-%m-%d %H:%M} UTC"


def _heading(message: TranscriptMessage) -> tuple[str, str]:
    tool = message.message.get("tool_name")
    beside = [f"{message.at:%Y-%m-%d %H:%M:%S} UTC"]
    beside += [message.author] if message.author else []
    beside += [tool] if isinstance(tool, str) else []
    return message.role, ", ".join(beside)


def _escape_markdown(text: str) -> str:
    """Return one line of plain text with every punctuation mark escaped, so that nothing in it is Markdown."""
    return _PUNCTUATION.sub(r"\\\1", safe_line(text, 400))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}{language}\n{text}\n{fence}\n"


class Part(msgspec.Struct, frozen=True):
    """A readable piece of a message. Its text is untrusted and unescaped."""

    kind: Kind
    text: str


def readable_parts(message: Mapping[str, Any]) -> list[Part]:
    """Return the readable parts of a message in order: text, file names, tool calls, and a word for anything else."""
    files = (Part("other", f"(file: {file.name or 'without a name'})") for file in attachments_of(dict(message)))
    parts = (*_content(message.get("content")), *files, *_calls(message.get("tool_calls")))
    return [part for part in parts if part.text]


def _content(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part("text", content)
    elif isinstance(content, list):
        yield from map(_block, content)
    elif content is not None:
        yield Part("other", f"({type(content).__name__})")


def _block(block: object) -> Part:
    if isinstance(block, str):
        return Part("text", block)
    if not isinstance(block, dict):
        return Part("other", f"({type(block).__name__})")
    text = block.get("text", block.get("content"))
    if isinstance(text, str):
        return Part("text", text)
    kind = block.get("type")
    return Part("other", f"({kind})" if isinstance(kind, str) else "(block)")


def _calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            argument_text = arguments if isinstance(arguments, str) else ""
            yield Part("call", f"{name if isinstance(name, str) else '?'}({argument_text})")


def read_whole_log(store: SessionStore, session_id: str) -> Iterator[TranscriptMessage]:
    """Yield every message of the session's own log, oldest first, read in pages."""
    after = 0
    while page := store.read_log(session_id, after, PAGE):
        yield from page
        after = page[-1].ref.seq


def read_whole_view(store: SessionStore, session_id: str) -> Iterator[TranscriptMessage]:
    """Yield every message that the agent of the session sees, oldest first, read in pages."""
    page = store.page_transcript(session_id, limit=PAGE)
    yield from page
    while page.cursor is not None:
        page = store.page_transcript(session_id, limit=PAGE, cursor=page.cursor)
        yield from page


def read_log_tail(store: SessionStore, session_id: str, limit: int) -> list[TranscriptMessage]:
    """Return the last `limit` messages of `read_whole_log`."""
    return list(deque(read_whole_log(store, session_id), maxlen=limit))


def select_messages(
    store: SessionStore, entry: SessionEntry, limit: int | None, *, every: bool
) -> Iterator[TranscriptMessage]:
    """Return the messages of an export: those that the agent sees, or with `every` the whole log; at most the last `limit`."""
    if not every and limit is None:
        return read_whole_view(store, entry.session_id)
    if not every:
        return iter(store.read_transcript(entry.session_id, limit))
    if limit is not None:
        return iter(read_log_tail(store, entry.session_id, limit))
    return read_whole_log(store, entry.session_id)


def write_new_file(output: Path, chunks: Iterator[str]) -> None:
    """Write a new file that only its owner can read. `InvalidRequest` if it exists; no partial file is left."""
    try:
        output.touch(mode=0o600, exist_ok=False)
    except FileExistsError as cause:
        raise InvalidRequest(f"{output} exists; choose a new file: nothing was overwritten") from cause
    except OSError as cause:
        raise InvalidRequest(f"{output} can't be made: {cause.strerror}; choose another place") from cause
    try:
        with output.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(chunks)
    except OSError as cause:
        output.unlink(missing_ok=True)
        raise InvalidRequest(f"{output} can't be written: {cause.strerror}; nothing is left of it") from cause
    except BaseException:
        output.unlink(missing_ok=True)
        raise


class CountingIterator(Iterator[T]):
    """An iterator that counts its items."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self.count = 0

    def __next__(self) -> T:
        item = next(self._items)
        self.count += 1
        return item
