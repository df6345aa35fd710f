"""Files of the data folder that only their user may read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def put_private_file(path: Path, text: str, place: Callable[[Path], object]) -> None:
    """Write one line of text beside `path`, for this user alone, and put it in place in one step; durable on return.

    `place` is given the finished file, and links or renames it. Where another process was first, and `place` does not
    replace, the other file stays. Raises `OSError` where the folder or the file can't be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        place(made)
    except FileExistsError:
        pass
    finally:
        made.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
