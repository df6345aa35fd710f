"""Adding to the user's configuration file: what stands in it stays as it is, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from threadline.config.declared import Place, dotted
from threadline.config.load import load_config
from threadline.config.show import init_text
from threadline.config.starter import written_beside
from threadline.config.toml import parse_toml, toml_key, toml_value
from threadline.errors import ConfigError


def has_section(file: Path, place: Place) -> bool:
    """Whether the file has that section. One that is not there has none; one that can't be read is `ConfigError`."""
    inner: object = parse_toml(_content(file).encode(), str(file))
    for name in place:
        if not isinstance(inner, Mapping) or name not in inner:
            return False
        inner = inner[str(name)]
    return True


def append_section(file: Path, place: Place, values: Mapping[str, object]) -> None:
    """Writes a new section behind what stands in the file, all of it or nothing. A missing one begins as `config init` has it.

    `ConfigError` where the file could not be used with it, or can't be written; then it is as it was.
    """
    # Of a link the file behind it is changed, and the link stays.
    target = Path(os.path.realpath(file))
    before = _content(target)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        written = written_beside(target, before + _section(before, place, values))
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    try:
        _require_usable(written, file, place)
        written.chmod(mode)
        written.replace(target)
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    finally:
        written.unlink(missing_ok=True)


def keep_secret(file: Path, secret: str) -> None:
    """A new file with a secret in it, for its owner alone; `FileExistsError` where there is one, `ConfigError` if it can't be."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as writing:
            writing.write(f"{secret}\n")
    except OSError as cause:
        file.unlink(missing_ok=True)
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause


def _content(file: Path) -> str:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return init_text()
    except OSError as cause:
        raise ConfigError(f"{file} can't be read: {cause.strerror}; check what it is and whose it is") from cause
    if not file.is_file():
        raise ConfigError(f"{file} is no file; name one with --config")
    # What is no TOML is told before anything is asked.
    parse_toml(content, str(file))
    return content.decode()


def _section(before: str, place: Place, values: Mapping[str, object]) -> str:
    line_end = "\r\n" if "\r\n" in before else "\n"
    lines = [
        f"[{toml_key(*map(str, place))}]",
        *(f"{toml_key(name)} = {toml_value(one)}" for name, one in values.items()),
    ]
    gap = "" if not before else line_end if before.endswith("\n") else 2 * line_end
    return gap + "".join(line + line_end for line in lines)


def _require_usable(written: Path, file: Path, place: Place) -> None:
    try:
        load_config(written)
    except ConfigError as cause:
        told = str(cause).replace(str(written), str(file))
        raise ConfigError(f"[{dotted(place)}] can't be added to {file}; nothing was changed:\n{told}") from None
