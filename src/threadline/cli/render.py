"""Print to the terminal. No other module prints, and untrusted text is made safe here, whoever calls."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from threadline.errors import InvalidRequest
from threadline.model.safe_text import safe_json, safe_line, safe_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# The width without a terminal: wide enough that no column is cut.
_PLAIN_WIDTH = 200
_MAX_CELL_CHARS = 48
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def print_line(text: str) -> None:
    """Print one line on standard output."""
    _write(sys.stdout, safe_text(_with_program_path(text)) + "\n")


def print_note(text: str) -> None:
    """Print one line on standard error, beside the result."""
    _write(sys.stderr, safe_text(_with_program_path(text)) + "\n")


def print_error(text: str) -> None:
    """Print an error and what to do about it on standard error, as one sentence."""
    sentence = safe_line(text, 1000)
    print_note(f"threadline: {sentence if sentence.endswith(('.', '…', '?', '!', ':')) else sentence + '.'}")


def show_json(document: object) -> None:
    """Print one JSON document. Characters that are unsafe on a terminal are escaped; the value stays the same."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=_json_value)
    _write(sys.stdout, safe_json(text) + "\n")


def print_stored(line: str) -> None:
    """Print a line of stored JSON, byte for byte; on a terminal with invisible characters written as escapes."""
    _write(sys.stdout, safe_json(line) if sys.stdout.isatty() else line)


def print_text(chunks: Iterable[str]) -> None:
    """Print text that the caller has already made safe."""
    for chunk in chunks:
        _write(sys.stdout, chunk)


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = (), gives_way: str = ""
) -> None:
    """Print a table, one line a row. On a narrow terminal only the column that `gives_way` names is cut."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=name != gives_way)
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    _console(sys.stdout).print(table)


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and their values, one pair a line."""
    pairs = list(facts)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        _print_styled((f"{name:<{width}}  ", "bold"), (safe_line(value, 1000), ""))


def show_heading(text: str, beside: str = "") -> None:
    """Print a heading."""
    _print_styled((safe_line(text, 400), "bold"), (f"  {safe_line(beside, 400)}" if beside else "", "dim"))


def show_indented(text: str, style: str = "") -> None:
    """Print untrusted text, indented by two spaces so that it can't pass for a heading."""
    for line in safe_text(text).split("\n"):
        _print_styled((f"  {line}", style))


def show_snippet(snippet: str) -> None:
    """Print the text of a search hit. On a terminal, matches are coloured instead of marked with `[[` and `]]`."""
    before, *pieces = f"  {safe_line(snippet, 1000)}".split("[[")
    styled = [(before, "")]
    for piece in pieces:
        match, mark, rest = piece.partition("]]")
        styled += [(match, "bold yellow"), (rest, "")] if mark else [(f"[[{piece}", "")]
    _print_styled(*styled)


def show_check(subject: str, details: str, *, problem: str = "", hint: str = "") -> None:
    """Print the result of a check: green, or red with the problem below; a hint follows in yellow."""
    mark, style = ("!", "bold red") if problem else ("ok", "green")
    _print_styled(
        (f"{mark:>2}  ", style),
        (f"{safe_line(subject, 400):<15}  ", "bold"),
        (safe_line(_with_program_path(details), 1000), ""),
    )
    for text, colour in ((problem, "red"), (hint, "yellow")):
        for line in text.splitlines():
            _print_styled((f"      {safe_line(_with_program_path(line), 1000)}", colour))


def confirm(question: str) -> bool:
    """Ask the person at the terminal, and return whether the answer was yes. Raise `InvalidRequest` without a terminal."""
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to ask; add --yes to go on without a question: nothing was changed")
    _write(sys.stderr, f"{safe_line(question, 400)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def prompt_hidden(question: str) -> str | None:
    """Ask for input that is not echoed and return it, or None without a terminal."""
    if not sys.stdin.isatty():
        return None
    from getpass import getpass

    return getpass(safe_line(question, 400))


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error; nothing if that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def format_time(moment: datetime) -> str:
    """Return a moment in the time zone of this machine, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def format_size(count: int) -> str:
    """Return a number of bytes for people, such as `1.5 MB`."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def count_text(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 session`, `2 sessions`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _with_program_path(text: str) -> str:
    """Put the path of this program in front of advised commands where a shell does not find `threadline` by name."""
    program = sys.argv[0]
    if "`threadline " not in text or Path(program).name != "threadline":
        return text
    on_path = shutil.which("threadline")
    if on_path is not None and Path(on_path).samefile(program):
        return text
    return text.replace("`threadline ", f"`{shlex.quote(program)} ")


def _console(file: TextIO) -> Console:
    from rich.console import Console

    width = None if file.isatty() else _PLAIN_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _print_styled(*pieces: tuple[str, str]) -> None:
    from rich.text import Text

    # A Text is never read as markup: brackets in a stranger's name stay brackets.
    _console(sys.stdout).print(Text.assemble(*pieces), soft_wrap=True)


def _cell(text: str) -> Text:
    from rich.text import Text

    return Text(safe_line(text, _MAX_CELL_CHARS), no_wrap=True, overflow="ellipsis")


def _write(file: TextIO, text: str) -> None:
    # A character that the terminal can't encode is printed as an escape instead of raising.
    reconfigure = getattr(file, "reconfigure", None)
    if reconfigure is not None and getattr(file, "errors", "") == "strict":
        reconfigure(errors="backslashreplace")
    file.write(text)
    file.flush()


def _json_value(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, msgspec.Struct):
        # By the encoded name: a field that was renamed keeps its key.
        return {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")
