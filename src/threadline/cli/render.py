"""The only place that prints. Whatever comes from strangers is made inert here, whoever calls."""

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

# Wide enough that no column is cut where no terminal says how wide it is.
_PLAIN_WIDTH = 200
_MAX_CELL_CHARS = 48
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def print_line(text: str) -> None:
    """One line for the person, on standard output."""
    _write(sys.stdout, safe_text(_with_program_path(text)) + "\n")


def print_note(text: str) -> None:
    """One line beside the result, on standard error."""
    _write(sys.stderr, safe_text(_with_program_path(text)) + "\n")


def print_error(text: str) -> None:
    """What went wrong and what to do, as one sentence on standard error."""
    sentence = safe_line(text, 1000)
    print_note(f"threadline: {sentence if sentence.endswith(('.', '…', '?', '!', ':')) else sentence + '.'}")


def show_json(document: object) -> None:
    """One JSON document, which means exactly what it was given and is harmless to look at."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=_json_value)
    _write(sys.stdout, safe_json(text) + "\n")


def print_stored(line: str) -> None:
    """A line of stored JSON, byte for byte; where a person looks on, with everything unseen written as escapes."""
    _write(sys.stdout, safe_json(line) if sys.stdout.isatty() else line)


def print_text(chunks: Iterable[str]) -> None:
    """Text that was made inert where it was put together."""
    for chunk in chunks:
        _write(sys.stdout, chunk)


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = (), gives_way: str = ""
) -> None:
    """A table, one line a row. Where there is little room, only the column that `gives_way` is cut."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=name != gives_way)
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    _console(sys.stdout).print(table)


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and their values, one a line."""
    pairs = list(facts)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        _print_styled((f"{name:<{width}}  ", "bold"), (safe_line(value, 1000), ""))


def show_heading(text: str, beside: str = "") -> None:
    """A line that starts something."""
    _print_styled((safe_line(text, 400), "bold"), (f"  {safe_line(beside, 400)}" if beside else "", "dim"))


def show_indented(text: str, style: str = "") -> None:
    """Someone's words, set off from ours by two spaces, so that they can't pass for a heading."""
    for line in safe_text(text).split("\n"):
        _print_styled((f"  {line}", style))


def show_snippet(snippet: str) -> None:
    """A search hit's words. What stands between the marks `[[` and `]]` is coloured instead, where colours can be shown."""
    before, *pieces = f"  {safe_line(snippet, 1000)}".split("[[")
    styled = [(before, "")]
    for piece in pieces:
        match, mark, rest = piece.partition("]]")
        styled += [(match, "bold yellow"), (rest, "")] if mark else [(f"[[{piece}", "")]
    _print_styled(*styled)


def show_check(subject: str, details: str, *, problem: str = "", hint: str = "") -> None:
    """Something that was looked at: green, or red with what is wrong below; what could be improved follows in yellow."""
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
    """Whether the person at the terminal says yes. Without one `InvalidRequest`: nothing goes unasked."""
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to ask; add --yes to go on without a question: nothing was changed")
    _write(sys.stderr, f"{safe_line(question, 400)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def prompt_hidden(question: str) -> str | None:
    """What the person at the terminal types, unseen; `None` where nobody is there."""
    if not sys.stdin.isatty():
        return None
    from getpass import getpass

    return getpass(safe_line(question, 400))


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error for work that takes long; silent where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def format_time(moment: datetime) -> str:
    """A moment in this machine's zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def format_size(count: int) -> str:
    """A number of bytes as people say it."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def count_text(number: int, singular: str, plural: str | None = None) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _with_program_path(text: str) -> str:
    """The text with the commands that it advises as they work here: by the path of this program, where no shell finds its name."""
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
    # A terminal that can't show a character shows its number instead of ending the program.
    reconfigure = getattr(file, "reconfigure", None)
    if reconfigure is not None and getattr(file, "errors", "") == "strict":
        reconfigure(errors="backslashreplace")
    file.write(text)
    file.flush()


def _json_value(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, msgspec.Struct):
        # By their names in JSON: a field that was renamed keeps its key.
        return {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")
