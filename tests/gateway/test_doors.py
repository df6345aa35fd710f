"""What comes in at the door and makes no sense, or too much: it ends there, and what comes after it is answered."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.gateway.talk import GROUP, THREAD, ask, current, echo, heard, said
from tests.gateway.world import EVERYONE, Open, Running, awaited

from threadline.clock import to_instant
from threadline.model.inbound import (
    FILES,
    ID_BYTES,
    PLACE_BYTES,
    RAW_BYTES,
    TEXT_CHARS,
    Attachment,
    Inbound,
    Quote,
    Unreadable,
    sanitized_unreadable,
)
from threadline.model.source import SessionSource
from threadline.ports.agent import Event, Text, Turn
from threadline.store.facade import GatewayStore
from threadline.store.maintenance import MessageTrace
from threadline.store.work.inbox import AdmitRequest
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import StoredBytes
from threadline.testing.scripted import ScriptedChat
from threadline.texts import commands as commands_texts
from threadline.texts import gateway as gateway_texts

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ADA: dict[str, Any] = {"platform": "scripted", "chat_id": "dm-ada", "user_id": "ada"}
HALF = "\ud800"
HUGE = "9" * 100_000


def noise(count: int) -> str:
    """What no index can make shorter, and what grows where it is escaped."""
    return "".join(random.Random(7).choices("/%", k=count))


# Well-typed, and nothing that any platform should say.
UNFIT: dict[str, dict[str, Any]] = {
    "no key": {"dedupe_key": ""},
    "a key with NUL": {"dedupe_key": "k\0"},
    "a huge key": {"dedupe_key": HUGE},
    "half a key": {"dedupe_key": HALF},
    "a huge message id": {"message_id": HUGE},
    "a message id with NUL": {"message_id": "m\0"},
    "a huge chat": {"source": {"chat_id": HUGE}},
    "half a chat": {"source": {"chat_id": HALF}},
    "a thread with NUL": {"source": {"thread_id": "\0"}},
    "a huge sender": {"source": {"user_id": HUGE}},
    "half a sender": {"source": {"user_id_alt": HALF}},
    "a huge album": {"album_id": HUGE},
    "a huge button": {"kind": "button", "button": HUGE},
    "a huge quote": {"reply_to": Quote(message_id=HUGE)},
    "a file that nobody can fetch": {"attachments": (Attachment(handle="h\0"),)},
    "an edit of a huge message id": {"kind": "edit", "message_id": HUGE},
    "the deletion of one with NUL": {"kind": "delete", "message_id": "\0"},
}
# Odd, but whoever wrote it meant something.
ODD: dict[str, dict[str, Any]] = {
    "NUL": {"text": "a\0b"},
    "half a sign": {"text": f"a{HALF}b"},
    "a huge name": {"source": {"user_name": "N" * 1_000_000}},
    "half a name": {"source": {"user_name": f"{HALF}\0Ada"}},
    "a hostile chat": {"source": {"chat_name": "\x1b]0;x\x07\0" * 500, "chat_topic": HALF}},
    "a huge handle": {"source": {"user_handle": HALF * 5_000}},
    "a hostile file": {"attachments": (Attachment(handle="h", name=f"../\0{HALF}" * 9_999, mime=HALF, size=10**400),)},
    "a file of less than nothing": {"attachments": (Attachment(handle="h", size=-1),)},
    "a huge quote": {"reply_to": Quote(message_id="m", text=HALF * 3_000_000)},
    "as much as can be": {"text": "\0" * TEXT_CHARS},
    "ids as long as can be": {
        "dedupe_key": noise(ID_BYTES),
        "message_id": noise(ID_BYTES),
        "source": {"chat_id": noise(PLACE_BYTES), "thread_id": noise(PLACE_BYTES)[::-1]},
    },
    "a time without a zone": {"sent_at": NOW.replace(tzinfo=None)},
    "the end of time": {"sent_at": datetime.max.replace(tzinfo=UTC)},
}


def event(source: dict[str, Any] | None = None, **fields: Any) -> Inbound:
    values: dict[str, Any] = {
        "dedupe_key": "k",
        "message_id": "m",
        "sent_at": NOW,
        "text": "a secret of Ada's",
    } | fields
    return Inbound(source=SessionSource(**{**ADA, **(source or {})}), **values)


async def parked(here: Running) -> list[MessageTrace]:
    lines = await here.store.maintenance.list_messages("parked")
    return [await here.store.maintenance.trace_message(line.pk) for line in lines]


@awaited
async def test_an_event_that_can_not_be_read_is_parked_and_the_next_one_answered(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        body = b'{"kind":"message","key":7,"text":"\\u001b[2Jpoison"}'
        here.chat.happen(body)
        assert await ask(here, "hello") == "you said: hello"
        assert here.chat.unacknowledged == []
        (story,) = await parked(here)
        assert story.raw == body.decode()
        assert (story.message.fate, story.message.kind) == ("parked", "unreadable")
        assert "key" in (story.message.note or "")


@awaited
async def test_what_can_not_be_read_is_kept_once_however_often_it_comes(opened: Open) -> None:
    async with opened(ScriptedAgent(echo), chat=ScriptedChat(resend_after=0.1)) as here:
        here.chat.lose_acks(2)
        here.chat.happen(b'"a poem"')
        here.chat.disconnect()
        here.chat.happen(b'"another poem"')
        await heard(here)
        assert sorted(str(story.raw) for story in await parked(here)) == ['"a poem"', '"another poem"']
        poem = Unreadable(platform="scripted", account="main", raw="x", reason="", dedupe_key="p1")
        assert [await here.gateway.accept(poem) for _ in range(2)] == ["parked", "duplicate"]


@awaited
async def test_what_can_not_be_read_is_cut_and_made_storable(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        hostile = Unreadable(
            platform="scripted",
            account="main",
            raw=f"\0{HALF}é" * 1_000_000,
            reason=f"\0{HALF}" * 1_000_000,
            dedupe_key=HUGE,
        )
        assert await here.gateway.accept(hostile) == "parked"
        assert await here.gateway.accept(hostile) == "duplicate"
        (story,) = await parked(here)
        assert story.raw is not None
        assert 0 < len(story.raw.encode()) <= RAW_BYTES
        assert len(story.message.note or "") <= 300


@awaited
async def test_of_a_flood_of_unreadable_events_what_the_last_said_is_kept(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        for platform in ("telegram", "scripted"):
            for number in range(5):
                poem = Unreadable(platform=platform, account="main", raw=f"poem {number}", reason="no sense")
                assert (await here.store.inbox.park(sanitized_unreadable(poem), keep=3)).pk is not None
        stories = await parked(here)
        assert [story.raw for story in stories] == ["poem 4", "poem 3", "poem 2", None, None] * 2


@awaited
async def test_an_event_whose_ids_can_not_be_kept_is_parked_without_its_words(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        for name, fields in UNFIT.items():
            unfit = event(**{"dedupe_key": name} | fields)
            assert await here.gateway.accept(unfit) == "parked", name
            assert await here.gateway.accept(unfit) == "duplicate", name
        stories = await parked(here)
        assert len(stories) == len(UNFIT)
        for story in stories:
            assert (story.message.note or "").startswith("its ")
            assert "secret" not in str(story.raw)
        assert await ask(here, "hello") == "you said: hello"


@awaited
async def test_an_odd_event_is_answered_like_any_other(opened: Open) -> None:
    async with opened(ScriptedAgent(_hears)) as here:
        for name, fields in ODD.items():
            odd = event(**{"dedupe_key": name} | fields)
            place = str(odd.source.chat_id)
            count = len(here.texts(place)) + 1
            assert await here.gateway.accept(odd) == "accepted", name
            assert await here.shown(count, place) == ["heard"] * count, name
        assert {line.fate for line in await here.store.maintenance.list_messages()} == {"answered"}
        # All that is kept of them can be written down.
        json.dumps((await current(here)).to_dict(), ensure_ascii=False).encode()


async def _hears(turn: Turn) -> AsyncIterator[Event]:
    """Fails where it is given what can't be written down."""
    turn.text.encode()
    yield Text("heard")


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * 5_000_000},
        {"text": HALF * (TEXT_CHARS + 1)},
        {"attachments": (Attachment(handle="h"),) * (FILES + 1)},
        {"kind": "edit", "text": "x" * 5_000_000},
    ],
)
@awaited
async def test_too_much_for_one_message_is_refused_and_its_sender_told(opened: Open, fields: dict[str, Any]) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await here.gateway.accept(event(**fields)) == "refused"
        await here.shows(gateway_texts.TOO_MUCH)
        (line,) = await here.store.maintenance.list_messages("refused")
        assert line.note in (
            f"its text is longer than {TEXT_CHARS:,} characters",
            f"more than {FILES} files came with it",
        )


def test_what_people_are_told_of_too_much_is_true() -> None:
    assert f"{TEXT_CHARS:,} characters" in gateway_texts.TOO_MUCH
    assert f"{FILES} files" in gateway_texts.TOO_MUCH


@awaited
async def test_of_a_stranger_no_words_are_kept_however_odd_they_are(opened: Open, stored_bytes: StoredBytes) -> None:
    stranger = {"chat_id": "dm-mallory", "user_id": "mallory"}
    async with opened(ScriptedAgent(echo)) as here:
        for name, fields in (UNFIT | ODD).items():
            odd = {"dedupe_key": name, "text": "what a stranger wrote"} | fields
            source = stranger | odd.pop("source", {})
            assert await here.gateway.accept(event(source, **odd)) in ("parked", "refused", "ignored"), name
    assert b"what a stranger wrote" not in stored_bytes()


@awaited
async def test_a_half_of_a_pair_that_was_stored_can_be_read_again(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        odd = event(text=HALF, source={"user_name": HALF})
        wanted = AdmitRequest(
            event=odd,
            resolve=store.resolve_request(odd.source),
            lane="talk",
            person=None,
            role="owner",
            at=to_instant(NOW),
        )
        admitted = await store.inbox.accept(wanted)
        assert admitted.session is not None
        (waiting,) = await store.inbox.list_pending(admitted.session.session_id)
        assert waiting.event == odd
        assert len(await store.maintenance.list_messages()) == 1


@awaited
async def test_erasing_a_person_takes_what_nobody_could_read_on_their_platform(
    opened: Open, stored_bytes: StoredBytes
) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        here.chat.happen(b'"a poem that Bob may have written"')
        elsewhere = Unreadable(platform="telegram", account="main", raw="a poem from elsewhere", reason="no sense")
        await here.gateway.accept(elsewhere)
        await heard(here)
        await here.store.erase_person("scripted@work:bob")
        assert sorted(str(story.raw) for story in await parked(here)) == ["None", "a poem from elsewhere"]
    assert b"a poem that Bob may have written" not in stored_bytes()


@awaited
async def test_the_admins_of_a_chat_change_what_people_share_in_it(opened: Open) -> None:
    no = commands_texts.NOT_STARTED_BY_YOU.format(usage="/title")
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello", user="bob", **THREAD)
        assert await ask(here, "/title Mine", user="eve", **THREAD) == no
        assert await ask(here, "/title Ours", user="eve", admin=True, **THREAD) != no
        before = await current(here, "den", "plans")
        assert before.title == "Ours"
        assert await ask(here, "/new", user="eve", admin=True, **THREAD) != no
        assert (await current(here, "den", "plans")).session_id != before.session_id


@awaited
async def test_an_admin_stops_a_turn_with_a_command_that_is_carried_out(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("a long story", user="bob", **THREAD)
        await here.chat.wait_for(lambda: agent.turns)
        here.chat.say("/new", user="eve", **THREAD)
        await heard(here)
        assert not agent.turns[0].cancelled.is_set()
        here.chat.say("/new", user="eve", admin=True, **THREAD)
        await here.chat.wait_for(agent.turns[0].cancelled.is_set)


@awaited
async def test_who_runs_a_chat_has_no_higher_role_for_that(opened: Open) -> None:
    async with opened(ScriptedAgent(echo), rules=EVERYONE) as here:
        await ask(here, "hello", user="mallory", admin=True, **GROUP)
        before = await current(here, "den")
        await ask(here, "/new", user="mallory", admin=True, **GROUP)
        assert (await current(here, "den")).session_id == before.session_id
        assert await said(here, before.session_id) == ["hello", "you said: hello"]
