"""The user of the machine who runs this process: their login name, their folders, and files that only they may read."""

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
    """Return the login name of the user whom this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # In containers a user id often has no name.
        return _UNKNOWN_USER


DATABASE_NAME = "threadline.db"
CONFIG_NAME = "config.toml"
WEB_TOKEN_NAME = "web-token"  # noqa: S105 - the name of the file, not what stands in it
REDACTION_SECRET_NAME = "redaction-secret"  # noqa: S105 - the name of the file, not what stands in it


def user_folder() -> Path:
    """Return the user's data folder for Threadline; it may not exist yet."""
    return user_data_path("threadline", appauthor=False)


def default_database() -> Path:
    """Return the database that is used when none is named."""
    return user_folder() / DATABASE_NAME


def ensure_user_folder() -> Path:
    """Return the data folder; create it with mode 0700 if it is missing. Raise `StoreReadOnly` if that fails."""
    folder = user_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise StoreReadOnly(f"{folder} can't be made: {cause.strerror}; name another place with --db") from cause
    return folder


def agents_folder() -> Path:
    """Return the folder in which agent programs have a folder for each person; it may not exist yet."""
    return user_folder() / "agents"


def web_token_file() -> Path:
    """Return the file with the token of the web page; it may not exist yet."""
    return user_folder() / WEB_TOKEN_NAME


def redaction_secret_file() -> Path:
    """Return the file with the secret for the hashes of redacted ids, for library callers; it may not exist yet."""
    return user_folder() / REDACTION_SECRET_NAME


def default_config() -> Path:
    """Return the configuration file that is used when none is named; it may not exist."""
    return user_config_path("threadline", appauthor=False) / CONFIG_NAME


def is_in_our_folders(path: Path) -> bool:
    """Return whether the file, with links followed, is in this user's data folder or configuration folder."""
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in (user_folder(), default_config().parent))


def put_private_file(path: Path, text: str, place: Callable[[Path], object]) -> None:
    """Write a file with one line of text that only this user may read, atomically; it is durable on return.

    `place` gets the path of the finished temporary file and links or renames it to `path`. If another process was first
    and `place` does not replace files, the other file stays. Raise `OSError` if the folder or the file can't be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        place(temporary)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
