"""Whatever an editor writes: every request is answered once, nothing breaks, and whoever means well is served after it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.acp.editor_world import CWD, opened

from threadline.agents.echo import EchoAgent

METHODS = (
    "initialize",
    "authenticate",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/close",
    "session/delete",
    "session/set_mode",
    "session/set_config_option",
    "session/prompt",
    "session/cancel",
    "session/update",
    "$/cancel_request",
    "logout",
    "_own/thing",
    "",
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
# `KNOWN` stands for a session that there is.
KNOWN = "KNOWN"
SESSION = st.sampled_from([KNOWN, KNOWN, KNOWN, "20200101_000000_0123456789ab", "x", ""]) | JSON
TEXT = st.sampled_from(["hi", "/help", "/undo", "/new", "/title x", "/stop", "/approve ABCD", "/nothing", "a\ud800b"])
BLOCK = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXT | st.text(max_size=20)),
    st.builds(lambda d: {"type": "image", "mimeType": "image/png", "data": d}, st.sampled_from(["AAAA", "?", ""])),
    st.builds(lambda u: {"type": "resource_link", "name": u, "uri": u}, st.text(max_size=20)),
    st.builds(lambda u: {"type": "resource", "resource": {"uri": "file:///x", "text": u}}, st.text(max_size=20)),
    JSON,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "protocolVersion": st.sampled_from([1, 2]) | JSON,
    "clientCapabilities": JSON,
    "sessionId": SESSION,
    "cwd": st.sampled_from([CWD, CWD, "/", "relative"]) | JSON,
    "mcpServers": st.just([]) | JSON,
    "additionalDirectories": JSON,
    "cursor": JSON,
    "prompt": st.lists(BLOCK, max_size=3) | JSON,
    "modeId": st.sampled_from(["ask", "allow", "deny", "x"]) | JSON,
    "configId": st.sampled_from(["mode", "model", "x"]) | JSON,
    "value": st.sampled_from(["ask", "allow", True]) | JSON,
    "methodId": JSON,
    "requestId": st.integers(0, 40) | JSON,
    "_meta": JSON,
}
PARAMS = st.fixed_dictionaries({}, optional=FIELDS) | JSON
MESSAGE = st.fixed_dictionaries({"method": st.sampled_from(METHODS), "params": PARAMS})


def _placed(value: Any, session: str) -> Any:
    """The value with the session that there is where one is meant."""
    if value == KNOWN and isinstance(value, str):
        return session
    if isinstance(value, dict):
        return {name: _placed(inner, session) for name, inner in value.items()}
    return [_placed(inner, session) for inner in value] if isinstance(value, list) else value


async def _survives(folder: Path, messages: list[tuple[dict[str, Any], bool]]) -> None:
    async with opened(f"sqlite://{folder}/threadline.db", EchoAgent(pause=0)) as editor:
        session = await editor.new()
        numbers = []
        for number, (message, is_request) in enumerate(messages, 1000):
            wire = {"jsonrpc": "2.0", **_placed(message, session)}
            if is_request:
                wire["id"] = number
                numbers.append(number)
            editor.send(wire)
        await editor.until(lambda: len(_answers(editor.heard)) >= len(numbers))
        # Whoever means well is served all the same.
        fresh = await editor.new()
        assert (await editor.said(fresh, "still there"))["stopReason"] == "end_turn"
        answered = _answers(editor.heard)
        assert sorted(answered) == numbers
        assert json.dumps(editor.heard)


def _answers(heard: list[dict[str, Any]]) -> list[int]:
    return [one["id"] for one in heard if "method" not in one and isinstance(one.get("id"), int) and one["id"] >= 1000]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(messages=st.lists(st.tuples(MESSAGE, st.integers(0, 4).map(bool)), min_size=1, max_size=12))
def test_every_request_of_a_fuzzed_editor_is_answered_once(
    tmp_path_factory: Any, messages: list[tuple[dict[str, Any], bool]]
) -> None:
    asyncio.run(asyncio.wait_for(_survives(tmp_path_factory.mktemp("fuzz"), messages), 60))
