"""The context block as a library renders it: redaction uses the secret of the data folder where none is given."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from threadline.config.paths import redaction_secret_file
from threadline.config.private_file import put_private_file
from threadline.errors import ConfigError
from threadline.model import context as model_context
from threadline.model.context import SessionContext

_BYTES = 32
_SECRET = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}")
_LONGEST = 4096


def build_session_context_prompt(
    context: SessionContext, *, redact_pii: bool = False, secret: bytes | None = None
) -> str:
    """What the agent is told of its conversation.

    With `redact_pii`, ids of platforms whose ids the model never needs are replaced by hashes keyed with `secret`, and no
    phone number or e-mail address shows in any name. An empty secret is `InvalidRequest`. Without one, the secret in the
    data folder is used, made there once and only where an id is replaced; `ConfigError` where its file can't be used.
    """
    if not redact_pii or secret is not None:
        return model_context.build_session_context_prompt(context, redact_pii=redact_pii, secret=secret or b"")
    # Any two secrets give the same text exactly where no id is replaced: then the real one is not needed.
    texts = {
        model_context.build_session_context_prompt(context, redact_pii=True, secret=probe) for probe in (b"0", b"1")
    }
    if len(texts) == 1:
        return texts.pop()
    real = load_or_make_secret(redaction_secret_file())
    return model_context.build_session_context_prompt(context, redact_pii=True, secret=real)


def load_or_make_secret(path: Path) -> bytes:
    """Return the secret in the file, or a new one of 256 bits where there is no file. Two who make one at once get the same.

    `ConfigError` where the file holds anything else, is no plain file of this user, or others may read or change it.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    try:
        put_private_file(path, secrets.token_hex(_BYTES), path.hardlink_to)
        return _read(path)
    except OSError as cause:
        raise ConfigError(f"{path} can't be made: {cause.strerror}; make its folder writable for this user") from cause


def _read(path: Path) -> bytes:
    try:
        # A link is not followed, and a pipe is not waited for.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as cause:
        raise ConfigError(f"{path} can't be read: {cause.strerror}; give it to this user as a plain file") from cause
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{path} is no plain file of this user; move it away, and a new secret is made")
        if found.st_mode & 0o077:
            raise ConfigError(
                f"others may use {path}; run `chmod 600 {path}`, or delete it if they may have read it: a new secret is made"
            )
        text = os.read(opened, _LONGEST).decode("ascii", "replace").strip()
    finally:
        os.close(opened)
    if _SECRET.fullmatch(text) is None:
        raise ConfigError(f"{path} holds no secret; restore it from a backup, or delete it, and a new one is made")
    return bytes.fromhex(text)
