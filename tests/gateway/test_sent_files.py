"""Files that people send: the agent reads them, the transcript names them, and answering again brings them along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from tests.gateway.talk import ask, eventually
from tests.gateway.world import Open, awaited

from threadline.errors import UnknownFile
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.ports.agent import Event, Text, Turn
from threadline.store.gateway import GatewayStore
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent

CONTENT = b"three herons"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def read_aloud(turn: Turn) -> AsyncIterator[Event]:
    """Says what is in each file that came with the turn."""
    for spoken in turn.messages:
        for file in spoken.attachments:
            try:
                yield Text(f"{file.name}: {(await turn.fetch(file)).decode()}")
            except UnknownFile as gone:
                yield Text(f"{file.name}: {gone}")


@awaited
async def test_the_agent_reads_what_came_with_a_message_also_when_it_answers_again(opened: Open) -> None:
    async with opened(ScriptedAgent(read_aloud)) as here:
        file = (await here.store.keep_file("scripted:ada", CONTENT, name="birds.txt", mime="text/plain")).attachment()
        assert await ask(here, "look", attachments=[file]) == "birds.txt: three herons"
        assert await ask(here, "/retry") == "birds.txt: three herons"
        (entry,) = await here.store.list_sessions()
        said = (await here.store.load_transcript(entry.session_id))[0]
        assert attachments_of(said) == (file,)
        await here.store.delete_session(entry.session_id)
        assert await ask(here, "again", attachments=[file]) == f"birds.txt: {UnknownFile()}"


@awaited
async def test_a_file_that_only_its_platform_has_is_told_as_such(opened: Open) -> None:
    async with opened(ScriptedAgent(read_aloud)) as here:
        shown = await ask(here, "look", attachments=[Attachment(handle="f1", name="birds.txt")])
        assert shown == "birds.txt: what is in birds.txt can't be had from its platform"


@awaited
async def test_a_gateway_drops_files_that_were_never_sent(opened: Open, location: str) -> None:
    async with await GatewayStore.open(location, clock=FakeClock(LONG_AGO), timezone="UTC") as store:
        file = await store.keep_file("scripted:ada", CONTENT)

    async def is_gone() -> bool:
        try:
            await here.store.file_body(file.file_id)
        except UnknownFile:
            return True
        return False

    async with opened(ScriptedAgent(read_aloud)) as here:
        await eventually(is_gone)
