"""One value of the configuration: what may stand there, and how it is read from TOML or from a variable."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Literal, TypeAlias

import msgspec

from threadline.config.secret import Secret, without_password
from threadline.errors import ConfigError, InvalidRequest

LeafKind: TypeAlias = Literal["text", "whole", "number", "switch", "choice", "secret", "list"]

_YES = frozenset({"yes", "true", "1", "on"})
_NO = frozenset({"no", "false", "0", "off"})
_LONGEST_SHOWN = 60


class Unfit(Exception):
    """A value that can't stand where it stands. The text says what is allowed; it never holds a secret."""


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """The values that one setting can have."""

    kind: LeafKind
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    # In words, where kind and bounds do not say it.
    allowed: str = ""
    # Raises `InvalidRequest` for what a pattern can't tell.
    check: Callable[[str], object] | None = None
    # Ids are text, but people write those that look like numbers as numbers.
    takes_numbers: bool = False
    item: Leaf | None = None

    @property
    def words(self) -> str:
        """What is allowed, as a sentence goes on after "use"."""
        if self.allowed:
            return self.allowed
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "list":
            return f"a list: each {self.item.words}" if self.item else "a list"
        return _KIND_WORDS[self.kind] + _bounds(self.least, self.most)

    def read(self, raw: object) -> object:
        """The value of the setting; `Unfit` for what can't be one."""
        if self.kind == "list":
            return self._read_list(raw)
        if self.kind == "secret":
            return _read_secret(raw)
        if self.kind in ("text", "choice"):
            return self._read_text(raw)
        return self._read_plain(raw)

    def from_variable(self, text: str) -> object:
        """What a variable's text means here, for `read`. Text that means nothing stays as it is."""
        if self.kind == "list":
            return _list_from(text)
        bare = text.strip()
        if self.kind == "switch":
            folded = bare.lower()
            return True if folded in _YES else False if folded in _NO else text
        if self.kind in ("whole", "number"):
            return _number_from(bare, text)
        return text

    def _read_list(self, raw: object) -> tuple[object, ...]:
        if not isinstance(raw, list | tuple) or self.item is None:
            raise self._unfit(raw)
        return tuple(self.item.read(inner) for inner in raw)

    def _read_text(self, raw: object) -> str:
        if self.takes_numbers and isinstance(raw, int) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str) or (self.choices and raw not in self.choices):
            raise self._unfit(raw)
        if not raw:
            raise Unfit(f"found nothing between the quotes; use {self.words}, or leave it out")
        if self.pattern is not None and not re.search(self.pattern, raw):
            raise self._unfit(raw)
        if self.check is not None:
            try:
                self.check(raw)
            except InvalidRequest as cause:
                raise Unfit(str(cause)) from cause
        return raw

    def _read_plain(self, raw: object) -> bool | int | float:
        if self.kind == "switch":
            if isinstance(raw, bool):
                return raw
            raise self._unfit(raw)
        wanted = int if self.kind == "whole" else (int, float)
        if not isinstance(raw, wanted) or isinstance(raw, bool) or not self._is_within(raw):
            raise self._unfit(raw)
        return raw if self.kind == "whole" else float(raw)

    def _is_within(self, number: float) -> bool:
        if not math.isfinite(number):
            return False
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def _unfit(self, raw: object) -> Unfit:
        return Unfit(f"found {found(raw)}; use {self.words}")


_KIND_WORDS: dict[str, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "switch": "true or false",
    "secret": "a reference: env:NAME, file:/PATH or command:PROGRAM ARGUMENTS",
}


def found(raw: object) -> str:
    """A value from outside as an error names it: short, on one line, without passwords."""
    if isinstance(raw, Mapping):
        return "a table"
    if isinstance(raw, list | tuple):
        return "a list"
    if isinstance(raw, datetime | date | time):
        return "a date or time"
    if isinstance(raw, str):
        text = without_password(raw)
        return json.dumps(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…", ensure_ascii=False)
    return str(raw).lower()[:_LONGEST_SHOWN]


def free_value(text: str) -> object:
    """What a variable's text means where nobody declared a type: a TOML value if it is one, else the text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # More than one name: the text held a line end and what follows is no part of a value.
    return parsed["value"] if parsed.keys() == {"value"} else text


def _list_from(text: str) -> object:
    if text.lstrip().startswith("["):
        return free_value(text)
    return [piece for part in text.split(",") if (piece := part.strip())]


def _number_from(bare: str, text: str) -> object:
    try:
        return int(bare)
    except ValueError:
        pass
    try:
        return float(bare)
    except ValueError:
        return text


def _read_secret(raw: object) -> Secret:
    try:
        return Secret(raw if isinstance(raw, str) else "")
    except ConfigError as cause:
        # Without its cause: a traceback must not lead to the text either.
        raise Unfit(str(cause)) from None


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {_plain(least)} to {_plain(most)}"
    if least is not None:
        return f", at least {_plain(least)}"
    return "" if most is None else f", at most {_plain(most)}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
