"""A secret is referred to, never written down: the configuration knows where it is, not what it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from threadline.errors import ConfigError

SecretPlace: TypeAlias = Literal["env", "file", "command"]

HOW_TO_REFER = "write env:NAME, file:/PATH or command:PROGRAM ARGUMENTS instead"

_PLACE = re.compile(r"(env|file|command):(.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_WORDS = (
    "secret",
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
)
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_URL_PASSWORD = re.compile(r"(\w://[^/\s:@]*):[^/\s]*@")
_QUERY_PASSWORD = re.compile(r"([?&](?:\w*password|token|key)=)[^&#\s]*", re.IGNORECASE)


class Secret(msgspec.Struct, frozen=True):
    """Where a secret is: `env:NAME`, `file:/PATH` or `command:PROGRAM ARGUMENTS`.

    It never holds the secret itself, so it can be shown, logged and compared. Any other text raises
    `ConfigError`, which does not repeat it: it may well be the secret.
    """

    reference: str

    def __post_init__(self) -> None:
        found = _PLACE.fullmatch(self.reference) if isinstance(self.reference, str) else None
        if found is None:
            raise ConfigError(f"a secret is never written here; {HOW_TO_REFER}")
        _require_target(found.group(1), found.group(2))

    @property
    def place(self) -> SecretPlace:
        """What kind of place it is in."""
        kind = self.reference.partition(":")[0]
        return "env" if kind == "env" else "file" if kind == "file" else "command"

    @property
    def target(self) -> str:
        """The variable, the path or the command line."""
        return self.reference.partition(":")[2]

    def __str__(self) -> str:
        return self.reference

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"


def find_reference(text: str) -> Secret | None:
    """The secret that `text` refers to; `None` for any other text."""
    try:
        return Secret(text)
    except ConfigError:
        return None


def names_a_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret. Where a secret is kept (`token_file`) is none."""
    bare = _SEPARATORS.sub("", name.lower())
    return bare.removesuffix("s").endswith(_SECRET_WORDS)


def without_password(text: str) -> str:
    """`text` with the passwords of URLs in it left out."""
    return _QUERY_PASSWORD.sub(r"\1…", _URL_PASSWORD.sub(r"\1:…@", text))


def plain_secrets(raw: Mapping[str, object]) -> list[tuple[str, ...]]:
    """Where, to any depth, text stands under a secret's name without being a reference."""
    found: list[tuple[str, ...]] = []
    for name, value in raw.items():
        if isinstance(value, Mapping):
            found += [(name, *inner) for inner in plain_secrets(value)]
        elif names_a_secret(name) and _holds_plain_text(value):
            found.append((name,))
    return found


def _holds_plain_text(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_plain_text(inner) for inner in value)
    return isinstance(value, str) and find_reference(value) is None


def _require_target(place: str, target: str) -> None:
    if place == "env" and not _VARIABLE.fullmatch(target):
        raise ConfigError("env: is followed by the name of a variable: letters, digits and _, such as env:API_KEY")
    # What begins with file:// is a URL, which may well be meant as one.
    if place == "file" and (not target.startswith(("/", "~")) or target.startswith("//") or "\x00" in target):
        raise ConfigError("file: is followed by a whole path, such as file:/etc/threadline/key or file:~/key")
    if place == "command" and not _words(target):
        raise ConfigError("command: is followed by a program and its arguments, such as command:pass show api")


def _words(command: str) -> list[str]:
    try:
        return [] if "\x00" in command else shlex.split(command)
    except ValueError:
        # A quote that is never closed.
        return []
