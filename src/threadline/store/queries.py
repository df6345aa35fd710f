"""Named SQL: one text for both engines, overridden by name where an engine needs another.

`sql/shared/*.sql` holds the texts that both run, `sql/sqlite.sql` and `sql/postgres.sql` what differs, with the reason beside
it. A block starts with `-- name: query_name`; `{fragment}` stands for a block `-- fragment: name`. Values are `:name` and
are always bound, never pasted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

import msgspec

_HEADER = re.compile(r"^-- (name|fragment): (\w+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_FRAGMENT = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"^\s*--.*$\n?", re.MULTILINE)


class Prepared(msgspec.Struct, frozen=True):
    """A query in an engine's own form, and the names of its values in the order in which they are bound."""

    name: str
    text: str
    names: tuple[str, ...]
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in order. A missing or surplus name is a mistake in the calling operation."""
        if len(values) != len(self.names):
            raise TypeError(f"{self.name} takes {self.names}, not {tuple(values)}")
        return self.pick(values)


@cache
def load_queries(engine: str, marker: str) -> dict[str, Prepared]:
    """All queries for an engine (`sqlite` or `postgres`), with `marker` (`?` or `$`) before each value's number."""
    root = files("threadline.store") / "sql"
    shared = [path.read_text() for path in (root / "shared").iterdir() if path.name.endswith(".sql")]
    own = (root / f"{engine}.sql").read_text()
    texts: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for source in (*shared, own):
        for kind, name, text in _blocks(source):
            (texts if kind == "name" else fragments)[name] = text
    return {name: _prepare(name, _expand(text, fragments), marker) for name, text in texts.items()}


def _blocks(source: str) -> Iterator[tuple[str, str, str]]:
    headers = list(_HEADER.finditer(source))
    ends = [header.start() for header in headers[1:]] + [len(source)]
    for header, end in zip(headers, ends, strict=True):
        text = _COMMENT.sub("", source[header.end() : end]).strip().removesuffix(";")
        yield header.group(1), header.group(2), text


def _expand(text: str, fragments: Mapping[str, str]) -> str:
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda match: fragments[match.group(1)], text)
    return text


def _prepare(name: str, text: str, marker: str) -> Prepared:
    names: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda m: f"{marker}{names.setdefault(m.group(1), len(names) + 1)}", text)
    return Prepared(name, numbered, tuple(names), _picker(tuple(names)))


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What gives the values of these names in order, at the speed of C where there are several."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)
