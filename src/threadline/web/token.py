"""The installation's token: who has it is the owner. It stands in a file that only its user can read."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from threadline.errors import ConfigError
from threadline.local_user import put_private_file

Notify: TypeAlias = Callable[[str], None]

_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43,128}")
_LONGEST = 4096


class UnusableToken(ConfigError):
    """The file with the token of the web page can't be used. Delete it, and the next start makes a new one."""


class TokenFile:
    """The token as its file tells it, looked at anew whenever the file has changed."""

    def __init__(self, path: Path, note: Notify | None = None) -> None:
        """Nothing is read or made yet. `note` is told what a person should know."""
        self.path = path
        self._note = note
        self._known: tuple[tuple[int, int, int], str] | None = None

    def current(self) -> str:
        """The token, made where there is none. `UnusableToken` where its file is damaged or can't be read."""
        mark = self._mark()
        if self._known is None or mark != self._known[0]:
            token = ensure_token(self.path, self._note)
            # The mark from before it was read: what is put in its place meanwhile is noticed the next time.
            self._known = mark or self._mark() or (0, 0, 0), token
        return self._known[1]

    def rotate(self) -> str:
        """A new token in place of the old one, which opens nothing from then on."""
        token = _fresh()
        _put(self.path, token, lambda made: made.replace(self.path))
        self._known = None
        return token

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def ensure_token(path: Path, note: Notify | None = None) -> str:
    """Return the token in the file, or make one of 256 bits if there is no file. Two callers at once get the same.

    The file is for its user alone: if others may read it, its mode is corrected and `note` is called. Raises `UnusableToken` if
    it is damaged, empty, or not ours to read.
    """
    try:
        return _read(path, note)
    except FileNotFoundError:
        _put(path, _fresh(), path.hardlink_to)
        return _read(path, note)


def owner_link(base: str, token: str) -> str:
    """What the owner opens. The token is in the fragment, which no browser sends and no server logs."""
    return f"{base.rstrip('/')}/{owner_fragment(token)}"


def owner_fragment(token: str) -> str:
    """What stands behind the address of the page in the owner's link."""
    return f"#t={token}"


def invite_fragment(code: str) -> str:
    """What stands behind the address of the page in the link that an invited person opens, once."""
    return f"#i={code}"


def _fresh() -> str:
    return secrets.token_urlsafe(_BYTES)


def _read(path: Path, note: Notify | None) -> str:
    try:
        # Of the open file, not of the path: what is mended is what is read.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as cause:
        raise UnusableToken(f"{path} can't be read: {cause.strerror}; give it to this user, or delete it") from cause
    try:
        if os.fstat(opened).st_mode & 0o077:
            os.fchmod(opened, 0o600)
            if note is not None:
                note(
                    f"{path} could be read by others, which is mended; `threadline web token --rotate` makes a new token."
                )
        text = os.read(opened, _LONGEST).decode("ascii", "replace").strip()
    except OSError as cause:
        raise UnusableToken(f"{path} can't be used: {cause.strerror}; give it to this user, or delete it") from cause
    finally:
        os.close(opened)
    if _TOKEN.fullmatch(text) is None:
        raise UnusableToken(
            f"{path} holds no token; delete it, and a new one is made: `threadline web link` then shows it"
        )
    return text


def _put(path: Path, token: str, place: Callable[[Path], object]) -> None:
    """Puts the token in place. Where somebody was first, and `place` does not replace, theirs stays."""
    try:
        put_private_file(path, token, place)
    except OSError as cause:
        raise UnusableToken(
            f"{path} can't be written: {cause.strerror}; make its folder writable for this user"
        ) from cause
