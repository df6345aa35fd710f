"""What an editor is answered where something went wrong."""

from __future__ import annotations

from threadline.errors import StoreError, ThreadlineError, UnknownSession
from threadline.model.safe_text import safe_line
from threadline.ports.platform import PlatformError
from threadline.rpc.connection import INTERNAL, INVALID_PARAMS, NOT_FOUND, RpcError
from threadline.texts import editors as texts

_ID_CHARS = 80


def failure(cause: ThreadlineError, session_id: str) -> RpcError:
    """The error that tells an editor what is wrong with what it asked of that session, and what to do about it."""
    if isinstance(cause, RpcError):
        return cause
    if isinstance(cause, UnknownSession):
        shown = safe_line(session_id, _ID_CHARS)
        return RpcError(NOT_FOUND, texts.NO_SESSION.format(session_id=shown), {"sessionId": session_id})
    if isinstance(cause, StoreError | PlatformError):
        return RpcError(INTERNAL, texts.STORE_AWAY.format(reason=cause))
    return RpcError(INVALID_PARAMS, str(cause))
