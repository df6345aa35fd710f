"""From references to secrets, at the moment of use: what is fetched here is handed on and kept nowhere."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from threadline.config.paths import is_in_our_folders
from threadline.config.secret import Secret, find_reference
from threadline.errors import ConfigError

COMMAND_SECONDS = 10.0
_LONGEST_BYTES = 64 * 1024
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def resolve_secret(secret: Secret, environment: Mapping[str, str], *, seconds: float = COMMAND_SECONDS) -> str:
    """The text of the secret, without one line end behind it. Blocks: a command may take up to `seconds`.

    What can't be had is `ConfigError`, which says what to do and never repeats what was found.
    """
    if secret.place == "env":
        return _from_variable(secret.target, environment)
    if secret.place == "file":
        return _from_file(secret.target)
    return _from_command(secret.target, environment, seconds)


def resolve(value: object, environment: Mapping[str, str]) -> object:
    """`value` with every reference in it, to any depth, replaced by its secret. Other values stay as they are."""
    if isinstance(value, Mapping):
        return {name: resolve(inner, environment) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(inner, environment) for inner in value]
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
        # A pipe that nobody writes to must not stop us here.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as cause:
        raise ConfigError(f"{path}, which holds a secret, can't be read: {cause.strerror}") from cause
    try:
        content = _guarded_content(opened, path)
    finally:
        os.close(opened)
    return _text(content, str(path))


def _guarded_content(opened: int, path: Path) -> bytes:
    # Of the open file, not of the path: what is checked is what is read.
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path} is no file; a secret is kept in a file of its own")
    if mode & _OPEN_TO_OTHERS:
        # Others may need a file that is not ours: no command is advised that would break it for them.
        ours = is_in_our_folders(path)
        fix = f"run: chmod 600 {shlex.quote(str(path))}" if ours else "refer to a file that only you can read"
        raise ConfigError(f"others can read {path}, which is to hold a secret; {fix}")
    return os.read(opened, _LONGEST_BYTES + 1)


def _from_command(command: str, environment: Mapping[str, str], seconds: float) -> str:
    words = shlex.split(command)
    name = words[0]
    try:
        # Its own session: at the limit all that it started goes with it. What it says on the way may be secret, too.
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
    return _text(output, f"the output of {name}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _text(content: bytes, place: str) -> str:
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
