"""What a session is called before an editor: in what it is told, in a list and when it is loaded, the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acp.editor_world import Opened, opened
from tests.gateway.world import awaited

from threadline.agents.echo import EchoAgent
from threadline.model.source import SessionSource
from threadline.testing import exchange


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/threadline.db"


def names(editor: Opened) -> list[str | None]:
    """The names that the editor was told, in order."""
    return [u["title"] for u in editor.updates if u["sessionUpdate"] == "session_info_update"]


async def named(editor: Opened, session: str) -> str | None:
    """The name that the editor has for a session; whoever lists or loads it is told the same."""
    last = names(editor)[-1]
    (listed,) = [one for one in (await editor.call("session/list"))["sessions"] if one["sessionId"] == session]
    assert listed.get("title") == last
    told = len(names(editor))
    await editor.load(session)
    await editor.until(lambda: len(names(editor)) > told)
    assert names(editor)[-1] == last
    return last


async def told_behind(editor: Opened, session: str, text: str) -> None:
    """Says something, and waits for what is told of the session after its answer."""
    told = len(names(editor))
    await editor.said(session, text)
    await editor.until(lambda: len(names(editor)) > told)


@awaited
async def test_a_session_that_a_command_changed_is_called_by_what_is_said_in_it_then(location: str) -> None:
    async with opened(location, EchoAgent(pause=0)) as editor:
        chat = await editor.store.get_or_create_session(SessionSource.local_cli())
        await editor.store.append_to_transcript(chat.session_id, exchange("from a chat", "yes"))
        session = await editor.new()
        await told_behind(editor, session, "one")
        for command, name in (
            (f"/resume {chat.session_id}", "from a chat"),
            ("/title Plans", "Plans"),
            ("/fork", "from a chat"),
            ("/new", None),
        ):
            await told_behind(editor, session, command)
            assert await named(editor, session) == name
            if name is not None:
                await told_behind(editor, session, "on")
                assert await named(editor, session) == name
        await told_behind(editor, session, "two")
        assert await named(editor, session) == "two"
        await told_behind(editor, session, "/undo")
        assert await named(editor, session) is None
        await told_behind(editor, session, "three")
        assert await named(editor, session) == "three"


@awaited
async def test_so_is_one_that_a_command_in_another_window_changed(store: str) -> None:
    async with opened(store, EchoAgent(pause=0)) as one, opened(store, EchoAgent(pause=0)) as other:
        session = await one.new()
        await told_behind(one, session, "one")
        await other.said(session, "/new")
        await told_behind(other, session, "two")
        await one.call("session/set_mode", sessionId=session, modeId="deny")
        await told_behind(one, session, "three")
        assert await named(one, session) == "two"
