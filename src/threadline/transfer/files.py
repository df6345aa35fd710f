"""Files that somebody else wrote: opened without following links, and read as damaged or hostile until shown otherwise."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any

import msgspec

from threadline.log import get_logger

log = get_logger(__name__)

MAX_ID_BYTES = 200
_NO_FILE = {errno.ENOENT, errno.ENAMETOOLONG}


class Skipped(msgspec.Struct, frozen=True):
    """Something that could not be read: where it stands (file and line, or index key), and why."""

    place: str
    why: str


def is_safe_id(text: object) -> bool:
    """Return whether `text` can stand as a plain file name: no path, no hidden file, no control characters."""
    return (
        isinstance(text, str)
        and not text.startswith(".")
        and not re.search(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]", text)
        and 0 < len(text.encode()) <= MAX_ID_BYTES
    )


def open_regular(path: Path) -> int | None:
    """Return a descriptor for reading a regular file; None where there is no file, or something else of that name."""
    try:
        # Without O_NONBLOCK the opening of a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        log.warning("transfer.file_refused", path=str(path), why="not a regular file")
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    log.warning("transfer.file_refused", path=str(path), why="not a regular file")
    return None


def find_file(path: Path) -> os.stat_result | None:
    """Return the facts of what stands under that name, a link itself included; None where there is nothing."""
    try:
        return os.lstat(path)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a value that differs after the file was written or replaced; None where there is none."""
    facts = find_file(path)
    return None if facts is None else (facts.st_size, facts.st_mtime_ns, facts.st_ino)


def parse_json(text: str) -> Any:
    """Return the value of JSON text. ValueError for damaged text, and for numbers that JSON can't carry."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number that JSON can't carry")
    return number
