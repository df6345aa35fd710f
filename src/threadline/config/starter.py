"""A configuration file to start with, written for its owner alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from threadline.config.show import init_text
from threadline.errors import ConfigError


def write_starter(path: Path, *, force: bool = False) -> None:
    """Writes the starter file with mode 0600, all of it or nothing. A file that is there is only replaced with `force`.

    `ConfigError` where it can't be, and what was there is as it was.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = written_beside(path, init_text())
    except OSError as cause:
        raise ConfigError(f"{path} can't be written: {cause.strerror}; name another place with --path") from cause
    try:
        if not force:
            # Takes the name first, and fails where someone else has it: a move would replace it unasked.
            path.touch(mode=0o600, exist_ok=False)
        temporary.replace(path)
    except FileExistsError as cause:
        raise ConfigError(f"{path} is there already; nothing was changed. Add --force to replace it") from cause
    except OSError as cause:
        raise ConfigError(f"{path} can't be written: {cause.strerror}; name another place with --path") from cause
    finally:
        temporary.unlink(missing_ok=True)


def written_beside(path: Path, text: str) -> Path:
    """A new file in the same folder, with mode 0600; nothing of it stays if it can't be written whole."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
