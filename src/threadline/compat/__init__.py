"""The session layer's original API, call for call, over our store: change the imports and go on.

`docs/howto/moving.md` lists every difference that remains. New code uses the names of `threadline` itself.
"""

from threadline.compat.config import GatewayConfig, HomeChannel, Platform, PlatformConfig, SessionResetPolicy
from threadline.compat.context import SessionContext, build_session_context, build_session_context_prompt
from threadline.compat.database import SessionDB
from threadline.compat.editors import SessionManager, SessionState
from threadline.compat.session import SessionEntry, SessionSource, build_session_key
from threadline.compat.store import SessionStore

__all__ = [
    "GatewayConfig",
    "HomeChannel",
    "Platform",
    "PlatformConfig",
    "SessionContext",
    "SessionDB",
    "SessionEntry",
    "SessionManager",
    "SessionResetPolicy",
    "SessionSource",
    "SessionState",
    "SessionStore",
    "build_session_context",
    "build_session_context_prompt",
    "build_session_key",
]
