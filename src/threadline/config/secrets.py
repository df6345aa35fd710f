"""Secrets: references to them, names and texts that may hold one, and fetching them at the moment of use.

The configuration has references only: it knows where a secret is, not what it is. A fetched secret is returned and not kept.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from threadline.errors import ConfigError
from threadline.local_user import is_in_our_folders, put_private_file

SecretPlace: TypeAlias = Literal["env", "file", "command"]

REFERENCE_HELP = "write env:NAME, file:/PATH or command:PROGRAM ARGUMENTS instead"

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
        match = _PLACE.fullmatch(self.reference) if isinstance(self.reference, str) else None
        if match is None:
            raise ConfigError(f"a secret is never written here; {REFERENCE_HELP}")
        _require_target(match.group(1), match.group(2))

    @property
    def place(self) -> SecretPlace:
        """Return the kind of place that has the secret."""
        kind = self.reference.partition(":")[0]
        return "env" if kind == "env" else "file" if kind == "file" else "command"

    @property
    def target(self) -> str:
        """Return the variable, the path or the command line."""
        return self.reference.partition(":")[2]

    def __str__(self) -> str:
        return self.reference

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"


def find_reference(text: str) -> Secret | None:
    """Return the secret that `text` refers to; None for any other text."""
    try:
        return Secret(text)
    except ConfigError:
        return None


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this name holds a secret. The place of a secret (`token_file`) is none."""
    bare = _SEPARATORS.sub("", name.lower())
    return bare.removesuffix("s").endswith(_SECRET_WORDS)


def mask_password(text: str) -> str:
    """Return `text` with the passwords of its URLs replaced by "…"."""
    return _QUERY_PASSWORD.sub(r"\1…", _URL_PASSWORD.sub(r"\1:…@", text))


def find_plain_secrets(raw: Mapping[str, object]) -> list[tuple[str, ...]]:
    """Return the paths, to any depth, of texts that have a secret's name and are not references."""
    paths: list[tuple[str, ...]] = []
    for name, value in raw.items():
        if isinstance(value, Mapping):
            paths += [(name, *inner) for inner in find_plain_secrets(value)]
        elif is_secret_name(name) and _holds_plain_text(value):
            paths.append((name,))
    return paths


def _holds_plain_text(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_plain_text(inner) for inner in value)
    return isinstance(value, str) and find_reference(value) is None


def _require_target(place: str, target: str) -> None:
    if place == "env" and not _VARIABLE.fullmatch(target):
        raise ConfigError("env: is followed by the name of a variable: letters, digits and _, such as env:API_KEY")
    # A text that begins with file:// may be meant as a URL.
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


COMMAND_SECONDS = 10.0
_LONGEST_BYTES = 64 * 1024
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def resolve_secret(secret: Secret, environment: Mapping[str, str], *, seconds: float = COMMAND_SECONDS) -> str:
    """Return the text of the secret, without the line end at its end. Blocks: a command may take up to `seconds`.

    Raise `ConfigError` if it can't be fetched. The error says what to do and never repeats the text.
    """
    if secret.place == "env":
        return _from_variable(secret.target, environment)
    if secret.place == "file":
        return _from_file(secret.target)
    return _from_command(secret.target, environment, seconds)


def resolve_all(value: object, environment: Mapping[str, str]) -> object:
    """Return `value` with every reference in it, to any depth, replaced by its secret. Other values stay as they are."""
    if isinstance(value, Mapping):
        return {name: resolve_all(inner, environment) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolve_all(inner, environment) for inner in value]
    secret = find_reference(value) if isinstance(value, str) else value
    return resolve_secret(secret, environment) if isinstance(secret, Secret) else value


def _from_variable(name: str, environment: Mapping[str, str]) -> str:
    text = environment.get(name)
    if not text:
        fix = f"set it where the gateway starts (export {name}=…), or refer to another place"
        raise ConfigError(f"the variable {name} is not set; {fix}")
    return text


def _from_file(target: str) -> str:
    try:
        path = Path(target).expanduser()
    except RuntimeError as cause:
        raise ConfigError(f"{target} names a home folder that is not there; write the path out") from cause
    try:
        # Without O_NONBLOCK a pipe without a writer would block here.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as cause:
        raise ConfigError(f"{path}, which holds a secret, can't be read: {cause.strerror}") from cause
    try:
        content = _guarded_content(opened, path)
    finally:
        os.close(opened)
    return _secret_text(content, str(path))


def _guarded_content(opened: int, path: Path) -> bytes:
    # The mode of the open file, not of the path: the file that is checked is the file that is read.
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path} is no file; a secret is kept in a file of its own")
    if mode & _OPEN_TO_OTHERS:
        # Other programs may need a file outside our folders: chmod could break it for them.
        ours = is_in_our_folders(path)
        fix = f"run: chmod 600 {shlex.quote(str(path))}" if ours else "refer to a file that only you can read"
        raise ConfigError(f"others can read {path}, which is to hold a secret; {fix}")
    return os.read(opened, _LONGEST_BYTES + 1)


def _from_command(command: str, environment: Mapping[str, str], seconds: float) -> str:
    words = shlex.split(command)
    name = words[0]
    try:
        # Its own session, so that its children can be killed with it. Its stderr may hold the secret too.
        process = subprocess.Popen(  # noqa: S603 the owner's own command, run without a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as cause:
        raise ConfigError(f"the command {name}, which gives a secret, can't be run: {cause.strerror}") from cause
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the command {name}, which gives a secret, took longer than {seconds:g} s") from None
    finally:
        _end(process)
    if process.returncode != 0:
        raise ConfigError(f"the command {name}, which gives a secret, ended with exit code {process.returncode}")
    return _secret_text(output, f"the output of {name}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _secret_text(content: bytes, place: str) -> str:
    if len(content) > _LONGEST_BYTES:
        raise ConfigError(f"{place} is longer than any secret; it must hold the secret and nothing else")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        # Without its cause, which holds the bytes.
        raise ConfigError(f"{place} is no UTF-8 text; it must hold the secret and nothing else") from None
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not text:
        raise ConfigError(f"{place} is empty; it must hold the secret")
    return text


_NEW_SECRET_BYTES = 32
_NEW_SECRET = re.compile(rf"[0-9a-f]{{{2 * _NEW_SECRET_BYTES}}}")
_MAX_NEW_SECRET_BYTES = 4096


def load_or_make_secret(path: Path) -> bytes:
    """Return the secret in the file; create it with 256 random bits if there is no file. Concurrent callers get the same one.

    Raise `ConfigError` if the file holds anything else, is no plain file of this user, or others may read or change it.
    """
    try:
        return _read_own_secret(path)
    except FileNotFoundError:
        pass
    try:
        put_private_file(path, secrets.token_hex(_NEW_SECRET_BYTES), path.hardlink_to)
        return _read_own_secret(path)
    except OSError as cause:
        raise ConfigError(f"{path} can't be made: {cause.strerror}; make its folder writable for this user") from cause


def _read_own_secret(path: Path) -> bytes:
    try:
        # O_NOFOLLOW: links are refused. O_NONBLOCK: a pipe does not block.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as cause:
        raise ConfigError(f"{path} can't be read: {cause.strerror}; give it to this user as a plain file") from cause
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigError(f"{path} is no plain file of this user; move it away, and a new secret is made")
        if status.st_mode & 0o077:
            raise ConfigError(
                f"others may use {path}; run `chmod 600 {path}`, or delete it if they may have read it: a new secret is made"
            )
        text = os.read(opened, _MAX_NEW_SECRET_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(opened)
    if _NEW_SECRET.fullmatch(text) is None:
        raise ConfigError(f"{path} holds no secret; restore it from a backup, or delete it, and a new one is made")
    return bytes.fromhex(text)
