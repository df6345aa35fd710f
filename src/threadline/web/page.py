"""The status page: facts and counts made into HTML, every value escaped."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from threadline.model.session import SessionEntry
from threadline.store.verbs import StoreFacts


def render_status(facts: StoreFacts, recent: Iterable[SessionEntry], *, version: str, is_default: bool) -> str:
    """The page. Of a session it shows its platform and how long it is: no ids, names, titles or words."""
    engine = facts.engine
    rows = "\n".join(_row(entry) for entry in recent)
    setting = "" if is_default else f"export THREADLINE_DB={shlex.quote(engine.location)}\n"
    return _template("status.html").substitute(
        version=escape(version),
        location=escape(engine.location),
        snippet_location=escape(repr(engine.location)),
        setting=escape(setting),
        engine=escape(f"{engine.engine} {engine.engine_version}"),
        schema=engine.schema_version,
        size=f"{(engine.size_bytes + engine.journal_bytes) / 1_000_000:,.1f} MB",
        current=f"{facts.sessions - facts.ended_sessions:,}",
        ended=f"{facts.ended_sessions:,}",
        messages=f"{facts.messages:,}",
        behind=f"{facts.behind:,}",
        recent=rows or '<tr><td colspan="4">No session yet.</td></tr>',
    )


def _row(entry: SessionEntry) -> str:
    state = "ended" if entry.ended_at else "current"
    cells = (f"{entry.updated_at:%Y-%m-%d %H:%M}", f"{entry.platform}, {entry.chat_type}", state)
    shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr>{shown}<td class="number">{entry.message_count:,}</td></tr>'


@cache
def _template(name: str) -> Template:
    return Template((files("threadline.web") / "pages" / name).read_text(encoding="utf-8"))
