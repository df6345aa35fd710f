"""A transcript as JSON lines, Markdown or a web page. Strangers' text never becomes structure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TypeAlias

from threadline.cli.options import Format
from threadline.cli.parts import parts_of
from threadline.model.message import TranscriptMessage, encode_message
from threadline.model.safe_text import safe_line, safe_text
from threadline.model.session import SessionEntry

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


def jsonl(_entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """One message a line, exactly as it was stored."""
    for message in messages:
        yield encode_message(message.message).body + "\n"


def markdown(entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """Headings are ours; everything that someone wrote stands in a fence that it can't close."""
    yield f"# {_md(_name(entry))}\n\n{_md(_about(entry))}\n"
    for message in messages:
        role, beside = _heading(message)
        yield f"\n## {_md(role)}\n\n{_md(beside)}\n"
        for part in parts_of(message.message):
            yield _fenced(safe_text(part.text), "text" if part.kind == "text" else "tool")


def html(entry: SessionEntry, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """One page that stands alone: no scripts, nothing fetched, and a policy that forbids both."""
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
        for part in parts_of(message.message):
            # The first line break after <pre> is not shown, so the text gets one that may be lost.
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


def _md(text: str) -> str:
    """One line of plain text: with every punctuation mark escaped, none of it is Markdown."""
    return _PUNCTUATION.sub(r"\\\1", safe_line(text, 400))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}{language}\n{text}\n{fence}\n"
