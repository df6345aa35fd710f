"""Where things are kept when nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_config_path, user_data_path

from threadline.errors import StoreReadOnly

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
