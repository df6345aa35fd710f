"""Files that come with messages: kept once, theirs alone, and gone with the last message that shows them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from threadline.errors import InvalidRequest, LeaseLost, UnknownFile
from threadline.model.files import MAX_FILE_BYTES, StoredFile, file_id_of
from threadline.model.inbound import IdChange, Inbound, stored_id
from threadline.model.message import encode_message
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest, TurnResult, UserMessage
from threadline.testing import FakeClock
from threadline.testing.contracts.storage.fixtures import StoredBytes

ADA = SessionSource(platform="web", chat_id="ada.1", user_id="ada", user_name="Ada")
BO = SessionSource(platform="web", chat_id="bo.1", user_id="bo", user_name="Bo")
CONTENT = b"\x89PNG\0 a picture of a heron"


async def begun(store: GatewayStore, source: SessionSource, key: str, *files: StoredFile) -> ClaimedTurn:
    """The turn that answers a message."""
    event = Inbound(
        dedupe_key=key,
        message_id=key,
        source=source,
        text="look",
        sent_at=store.clock.now(),
        attachments=tuple(file.attachment() for file in files),
    )
    at = store.now()
    admission = AdmitRequest(
        event=event, lane="talk", person=person_of(source), role="owner", resolve=store.resolve_request(source), at=at
    )
    await store.inbox.accept(admission)
    (claimed,) = await store.turns.claim(
        ClaimRequest(owner="w", turn_ids=(f"t-{key}",), at=at, duration=15_000_000, platforms=("web",))
    )
    return claimed


async def say(store: GatewayStore, source: SessionSource, file: StoredFile, key: str) -> str:
    """A message with a file, answered; its session."""
    claimed = await begun(store, source, key, file)
    said = UserMessage(
        inbox_pk=claimed.messages[0].pk,
        message=encode_message({"role": "user", "content": "look", "attachments": [{"handle": file.file_id}]}),
        author=None,
        external_id=key,
        fate="answered",
        files=(stored_id(file.attachment().handle) or "",),
    )
    await store.turns.finish(
        TurnResult(
            lease=claimed.lease,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=store.now(),
            user_messages=(said,),
            taken_messages=claimed.messages,
        )
    )
    return claimed.session.session_id


def test_a_file_is_read_by_who_sent_it_and_by_nobody_else(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        kept = await gateway.keep_file(ADA, CONTENT, name="../../heron.png", mime="image/png")
        assert kept == StoredFile(
            file_id=file_id_of(CONTENT), name="../../heron.png", mime="image/png", size=len(CONTENT)
        )
        assert await gateway.read_file("web:ada", kept.file_id) == (kept, CONTENT)
        for stranger in ("web:bo", "telegram:ada"):
            with pytest.raises(UnknownFile):
                await gateway.read_file(stranger, kept.file_id)
        with pytest.raises(UnknownFile):
            await gateway.read_file("web:ada", "no\0such")

    runner.run(story())


def test_the_same_content_is_kept_once_under_each_senders_name(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        first = await gateway.keep_file(ADA, CONTENT, name="mine", mime="image/png")
        second = await gateway.keep_file(BO, CONTENT, name="theirs", mime="image/png")
        assert first.file_id == second.file_id
        assert (await gateway.find_file(ADA, first.file_id)).name == "mine"
        assert (await gateway.find_file(BO, first.file_id)).name == "theirs"
        await gateway.erase_person("web:ada")
        with pytest.raises(UnknownFile):
            await gateway.find_file(ADA, first.file_id)
        assert (await gateway.read_file(BO, first.file_id))[1] == CONTENT

    runner.run(story())


def test_too_large_and_empty_files_are_refused(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    for body in (b"", b"x" * (MAX_FILE_BYTES + 1)):
        with pytest.raises(InvalidRequest):
            runner.run(gateway.keep_file(ADA, body))
    assert runner.run(gateway.keep_file(ADA, b"x" * MAX_FILE_BYTES)).size == MAX_FILE_BYTES


def test_a_file_goes_with_its_last_message(
    gateway: GatewayStore, runner: asyncio.Runner, stored_bytes: StoredBytes
) -> None:
    async def story() -> None:
        kept = await gateway.keep_file(ADA, CONTENT, name="heron")
        first = await say(gateway, ADA, kept, "m1")
        other = SessionSource(platform="web", chat_id="ada.2", user_id="ada")
        second = await say(gateway, other, kept, "m2")
        await gateway.delete_session(first)
        assert (await gateway.read_file(ADA, kept.file_id))[1] == CONTENT
        (message,) = await gateway.read_transcript(second)
        await gateway.redact(message.ref)
        with pytest.raises(UnknownFile):
            await gateway.read_file(ADA, kept.file_id)
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(kept.file_id)

    runner.run(story())


def test_a_fork_keeps_the_files_of_a_deleted_session(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        kept = await gateway.keep_file(ADA, CONTENT)
        session = await say(gateway, ADA, kept, "m1")
        fork = await gateway.fork_session(session)
        await gateway.delete_session(session)
        assert await gateway.files.read_body(kept.file_id) == CONTENT
        await gateway.delete_session(fork.session_id)
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(kept.file_id)

    runner.run(story())


def test_a_file_that_was_never_sent_is_dropped_after_a_week(
    gateway: GatewayStore, runner: asyncio.Runner, clock: FakeClock
) -> None:
    async def story() -> None:
        sent = await gateway.keep_file(ADA, b"sent")
        unsent = await gateway.keep_file(ADA, b"unsent")
        await say(gateway, ADA, sent, "m1")
        clock.advance(timedelta(days=6))
        assert await gateway.files.delete_unsent() == 0
        clock.advance(timedelta(days=2))
        assert await gateway.files.delete_unsent() == 1
        assert await gateway.files.read_body(sent.file_id) == b"sent"
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(unsent.file_id)

    runner.run(story())


def test_a_person_is_told_of_their_files_and_erasing_them_takes_the_content(
    gateway: GatewayStore, runner: asyncio.Runner, stored_bytes: StoredBytes
) -> None:
    async def story() -> None:
        kept = await gateway.keep_file(ADA, b"content that is Ada's alone", name="diary")
        await say(gateway, ADA, kept, "m1")
        page = await gateway.export("web:ada")
        records = [record.to_dict() for record in page.items if record.kind == "file"]
        assert [(one["file_id"], one["name"], one["size"]) for one in records] == [(kept.file_id, "diary", 27)]
        assert b"Ada's alone" in stored_bytes()
        await gateway.erase_person("web:ada")
        assert (await gateway.export("web:ada")).items[0].summary is not None

    runner.run(story())
    assert b"Ada's alone" not in stored_bytes()


def test_a_person_with_another_id_keeps_their_files(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        kept = await gateway.keep_file(ADA, CONTENT, name="heron")
        moved = IdChange(platform="web", account="main", dedupe_key="mv", what="user", old_id="ada", new_id="ada2")
        await gateway.id_changes.apply(moved)
        assert (await gateway.read_file("web:ada2", kept.file_id)) == (kept, CONTENT)

    runner.run(story())


async def answer(store: GatewayStore, claimed: ClaimedTurn, *files: tuple[StoredFile, ...]) -> None:
    """Ends a turn with a message for each of these."""
    await store.turns.finish(
        TurnResult(
            lease=claimed.lease,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=store.now(),
            answer=tuple(encode_message({"role": "assistant", "content": str(number)}) for number in range(len(files))),
            answer_files=tuple(tuple(file.file_id for file in sent) for sent in files),
            taken_messages=claimed.messages,
        )
    )


def test_a_file_of_a_turn_is_whose_turn_it_is_and_goes_with_its_message(
    gateway: GatewayStore, runner: asyncio.Runner, clock: FakeClock
) -> None:
    async def story() -> None:
        claimed = await begun(gateway, ADA, "m1")
        first = await gateway.files.keep_for_turn(claimed.lease, b"first", name="one", mime="text/plain")
        second = await gateway.files.keep_for_turn(claimed.lease, b"second", name="two")
        unsent = await gateway.files.keep_for_turn(claimed.lease, b"unsent")
        assert (await gateway.read_file(ADA, first.file_id)) == (first, b"first")
        with pytest.raises(UnknownFile):
            await gateway.read_file(BO, first.file_id)
        await answer(gateway, claimed, (first,), (), (second,))
        clock.advance(timedelta(days=8))
        assert await gateway.files.delete_unsent() == 1
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(unsent.file_id)
        messages = await gateway.read_transcript(claimed.session.session_id)
        await gateway.redact(messages[0].ref)
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(first.file_id)
        assert await gateway.files.read_body(second.file_id) == b"second"
        told = [one.to_dict() for one in (await gateway.export("web:ada")).items if one.kind == "file"]
        assert [one["name"] for one in told] == ["two"]

    runner.run(story())


def test_a_turn_that_is_anothers_keeps_no_file(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        claimed = await begun(gateway, ADA, "m1")
        stale = replace(claimed.lease, fence=claimed.lease.fence + 1)
        with pytest.raises(LeaseLost):
            await gateway.files.keep_for_turn(stale, CONTENT)
        await answer(gateway, claimed)
        with pytest.raises(LeaseLost):
            await gateway.files.keep_for_turn(claimed.lease, CONTENT)
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(file_id_of(CONTENT))

    runner.run(story())


def test_a_file_for_nobody_in_particular_is_the_chats(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        channel = SessionSource(platform="web", chat_type="channel", chat_id="news")
        kept = await gateway.files.keep_for_turn((await begun(gateway, channel, "m1")).lease, CONTENT)
        assert await gateway.read_file("web:%dm:news", kept.file_id) == (kept, CONTENT)
        with pytest.raises(UnknownFile):
            await gateway.find_file("web:news", kept.file_id)

    runner.run(story())


def test_nothing_is_kept_in_the_name_of_somebody_who_was_erased(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    async def story() -> None:
        shared = SessionSource(platform="web", chat_type="group", chat_id="den", thread_id="t", user_id="ada")
        own, together = await begun(gateway, ADA, "m1"), await begun(gateway, shared, "m2")
        before = await gateway.files.keep_for_turn(together.lease, b"before")
        await gateway.erase_person("web:ada")
        with pytest.raises(UnknownFile):
            await gateway.files.read_body(before.file_id)
        with pytest.raises(LeaseLost):
            await gateway.files.keep_for_turn(own.lease, CONTENT)
        after = await gateway.files.keep_for_turn(together.lease, b"after")
        with pytest.raises(UnknownFile):
            await gateway.find_file("web:ada", after.file_id)
        assert await gateway.files.read_body(after.file_id) == b"after"

    runner.run(story())
