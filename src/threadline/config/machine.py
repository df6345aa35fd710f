"""What the machine tells of who runs this process."""

from __future__ import annotations

import os
import pwd

_UNKNOWN_USER = "local"


def login_name() -> str:
    """The name of the user whom this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # Containers run under numbers that have no name.
        return _UNKNOWN_USER
