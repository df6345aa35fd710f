"""Every setting, declared once: the loader, the help and the reference page derive from here."""

from __future__ import annotations

import msgspec


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `default` is said in words, because it may depend on the machine."""

    name: str
    variable: str
    default: str
    help: str


DB = Setting(
    name="db",
    variable="THREADLINE_DB",
    default="threadline.db in your data folder",
    help="Where the sessions are: a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE",
)

SETTINGS = (DB,)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment says. `None` means that it says nothing, and the default holds."""

    db: str | None = None
