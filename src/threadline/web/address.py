"""Where the page is while it runs: a file that tells the other commands, which must not send a token to a guessed address."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from threadline.log import get_logger

log = get_logger(__name__)

_LONGEST = 4096


def address_file(token_file: Path) -> Path:
    """Beside the token, which is what the address is asked for with."""
    return token_file.with_name("web-address")


@contextmanager
def announced(path: Path, address: str) -> Iterator[None]:
    """As long as this lasts, and this process lives, the file tells where the page is. Of several pages the last one is told.

    Where the file can't be written, nothing is told but the log.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        held = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        log.warning("web.address_not_told", error=str(cause))
        yield
        return
    try:
        # The kernel lets go of it when this process dies, however it dies: who can lock the file knows that it is out of date.
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(held, address.encode())
        made.replace(path)
        yield
    finally:
        _remove(path, held)
        os.close(held)


def announced_at(path: Path) -> str | None:
    """Where the page is that runs now; `None` where none does, as far as this user can tell."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(opened, _LONGEST).decode(errors="replace").strip() or None
    finally:
        os.close(opened)
    return None


def _remove(path: Path, held: int) -> None:
    """Another page may have put its own address there."""
    try:
        if path.exists() and os.path.samestat(path.stat(), os.fstat(held)):
            path.unlink()
    except OSError as cause:
        log.warning("web.address_not_taken_back", error=str(cause))
