"""The user"""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_config_path, user_data_path

from threadline.errors import StoreReadOnly

_UNKNOWN_USER = "local"


def login_name() -> str:
    """The name of the user whom this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # Containers run under numbers that have no name.
        return _UNKNOWN_USER


DATABASE_NAME = "threadline.db"
CONFIG_NAME = "config.toml"
WEB_TOKEN_NAME = "web-token"  # noqa: S105 - the name of the file, not what stands in it
REDACTION_SECRET_NAME = "redaction-secret"  # noqa: S105 - the name of the file, not what stands in it


def user_folder() -> Path:
    """The user's data folder for Threadline; it may not exist yet."""
    return user_data_path("threadline", appauthor=False)


def default_database() -> Path:
    """The database that is used when none is named."""
    return user_folder() / DATABASE_NAME


def ensure_user_folder() -> Path:
    """The data folder, made for its owner alone where it is missing; `StoreReadOnly` if it can't be."""
    folder = user_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise StoreReadOnly(f"{folder} can't be made: {cause.strerror}; name another place with --db") from cause
    return folder


def agents_folder() -> Path:
    """Where agents that are programs of their own have a folder for each person; it may not exist yet."""
    return user_folder() / "agents"


def web_token_file() -> Path:
    """The file with the token of the web page; it may not exist yet."""
    return user_folder() / WEB_TOKEN_NAME


def redaction_secret_file() -> Path:
    """The file with the secret that keys the hashes of redacted ids for library callers; it may not exist yet."""
    return user_folder() / REDACTION_SECRET_NAME


def default_config() -> Path:
    """The configuration file that is used when none is named; it may not exist."""
    return user_config_path("threadline", appauthor=False) / CONFIG_NAME


def is_in_our_folders(path: Path) -> bool:
    """Whether the file, with links followed, is in the data folder or the configuration folder of this user."""
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in (user_folder(), default_config().parent))


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
