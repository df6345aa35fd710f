"""Files that people send: the agent reads them, the transcript names them, and answering again brings them along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
from tests.gateway.talk import ask, eventually
from tests.gateway.world import EVERYONE, Open, awaited, settings_for

from threadline.errors import UnknownFile
from threadline.gateway.gateway import Gateway
from threadline.model.files import MAX_FILE_BYTES, attachments_of, user_message
from threadline.model.inbound import Attachment
from threadline.ports.agent import Event, Text, Turn
from threadline.ports.platform import PlatformError, RateLimited, TooLong
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock, assistant
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedPlatform

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
async def test_a_file_that_its_platform_keeps_is_fetched_there_also_when_it_is_answered_again(opened: Open) -> None:
    async with opened(ScriptedAgent(read_aloud)) as here:
        file = here.chat.add_file(CONTENT, name="birds.txt", mime="text/plain")
        assert await ask(here, "look", attachments=[file]) == "birds.txt: three herons"
        assert await ask(here, "/retry") == "birds.txt: three herons"
        (entry,) = await here.store.list_sessions()
        (kept,) = attachments_of((await here.store.load_transcript(entry.session_id))[0])
        assert (kept.handle, kept.platform, kept.account) == (file.handle, "scripted", "main")


@awaited
async def test_why_a_file_can_not_be_had_is_told(opened: Open) -> None:
    async with opened(ScriptedAgent(read_aloud)) as here:
        gone = Attachment(handle="f99", name="gone.txt")
        assert (
            await ask(here, "look", attachments=[gone]) == "gone.txt: gone.txt is gone from its platform; send it again"
        )
        file = here.chat.add_file(CONTENT, name="birds.txt")
        large = msgspec.structs.replace(file, size=MAX_FILE_BYTES + 1)
        assert "larger than 10 MB" in await ask(here, "look", attachments=[large])
        for error in (TooLong("more than that"), RateLimited(60), PlatformError("no")):
            here.chat.fail_next(error, on="fetch")
            assert "birds.txt: birds.txt" in await ask(here, "look", attachments=[file])
        assert await ask(here, "look", attachments=[file]) == "birds.txt: three herons"


@awaited
async def test_a_handle_is_given_to_no_account_but_the_one_that_it_came_from(opened: Open) -> None:
    async with opened(ScriptedAgent(read_aloud)) as here:
        here.chat.add_file(b"somebody else's")
        # As a session has it that began on another platform, or an adapter that claims to speak for one.
        for platform, account in (("telegram", "main"), ("scripted", "work"), ("", "")):
            foreign = Attachment(handle="f1", name="birds.txt", platform=platform, account=account)
            assert await ask(here, "look", attachments=[foreign]) == "birds.txt: somebody else's"
            (entry,) = await here.store.list_sessions()
            await here.store.rewrite_transcript(entry.session_id, [user_message("look", [foreign]), assistant("well")])
            assert await ask(here, "/retry") == "birds.txt: what is in birds.txt can't be had from its platform"


@awaited
async def test_what_a_platform_without_files_gives_is_told_as_such(opened: Open) -> None:
    class NoFiles(ScriptedPlatform):
        fetch = None  # type: ignore[assignment]

    async with opened(ScriptedAgent(read_aloud)) as here:
        await here.gateway.stop()
        platform = NoFiles(here.chat.address)
        gateway = Gateway(here.store, settings_for(ScriptedAgent(read_aloud)), EVERYONE, [platform])
        await gateway.start(alone=True)
        shown = await ask(here, "look", attachments=[Attachment(handle="f1", name="birds.txt")])
        assert shown == "birds.txt: what is in birds.txt can't be had from its platform"
        await gateway.stop()


@awaited
async def test_a_gateway_drops_files_that_were_never_sent(opened: Open, location: str) -> None:
    async with await GatewayStore.open(location, clock=FakeClock(LONG_AGO), timezone="UTC") as store:
        file = await store.keep_file("scripted:ada", CONTENT)

    async def is_gone() -> bool:
        try:
            await here.store.files.read_body(file.file_id)
        except UnknownFile:
            return True
        return False

    async with opened(ScriptedAgent(read_aloud)) as here:
        await eventually(is_gone)
