"""What the store tells people who look at their conversations on the page."""

from __future__ import annotations

import msgspec
import pytest
from tests.gateway.pages import CONVERSATION, GUEST, Paged, Talker, paged
from tests.gateway.talk import echo, eventually
from tests.gateway.world import awaited

from threadline.errors import InvalidRequest, UnknownMessage, UnknownSession
from threadline.model.client_sources import WEB, web_source
from threadline.ports.agent import AskPermission, Event, Text, Thought, ToolCall, ToolResult
from threadline.store.work.change_feed import ConversationSnapshot, TurnCursor
from threadline.testing.agents import ScriptedAgent

SOURCE = web_source("owner", CONVERSATION)


async def looked(here: Paged, **known: object) -> ConversationSnapshot:
    seen = await here.store.change_feed.snapshot(SOURCE, **known)  # type: ignore[arg-type]
    assert seen is not None
    return seen


def texts(seen: ConversationSnapshot) -> list[str]:
    return [str(message.message["content"]) for message in seen.messages]


@awaited
async def test_where_nothing_was_said_there_is_nothing_to_see(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        assert await here.store.change_feed.snapshot(SOURCE) is None
        with pytest.raises(UnknownSession):
            await here.store.change_feed.find(SOURCE)


@awaited
async def test_a_conversation_is_seen_with_all_that_was_said(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        seen = await looked(here)
        assert texts(seen) == ["one", "you said: one"]
        assert (seen.turn, seen.pending, seen.approval, seen.can_redo) == (None, [], None, False)
        assert seen.is_current
        assert not seen.has_earlier
        assert seen.preview == "one"


@awaited
async def test_who_has_seen_something_is_told_what_follows(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        first = await looked(here)
        await here.say("two", key="m2")
        await here.answered()
        onward = await looked(here, view_version_mark=first.view_version_mark, seq=first.seq)
        assert onward.is_continuation
        assert texts(onward) == ["two", "you said: two"]
        assert texts(await looked(here, view_version_mark=onward.view_version_mark, seq=onward.seq)) == []


@awaited
async def test_after_an_undo_what_was_seen_counts_for_nothing(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        for text in ("one", "two"):
            await here.say(text, key=text)
            await here.answered()
        before = await looked(here)
        await here.say("/undo", key="u1")
        await here.answered()
        undone = await looked(here, view_version_mark=before.view_version_mark, seq=before.seq)
        assert not undone.is_continuation
        assert texts(undone) == ["one", "you said: one"]
        assert undone.can_redo
        await here.say("/redo", key="r1")
        await here.answered()
        redone = await looked(here, view_version_mark=undone.view_version_mark, seq=undone.seq)
        assert not redone.is_continuation
        assert texts(redone) == ["one", "you said: one", "two", "you said: two"]
        assert redone.view_version_mark == before.view_version_mark


@awaited
async def test_another_undo_is_another_view_though_its_number_is_the_same(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        for text in ("one", "two", "three"):
            await here.say(text, key=text)
            await here.answered()
        marks = []
        for number, command in enumerate(("/undo", "/redo", "/undo 2")):
            await here.say(command, key=f"c{number}")
            await here.answered()
            marks.append((await looked(here)).view_version_mark)
        assert len(set(marks)) == 3


@awaited
async def test_a_turn_is_seen_while_it_runs_with_what_it_answers(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent) as here:
        await here.say("go", key="m1")
        agent.says(Thought("hm"), "some ", "words")
        await eventually(lambda: _has_said(here, 2))
        agent.says(ToolCall("c1", "look", "{}"), ToolResult("c1", "seen"))
        await eventually(lambda: _has_said(here, 4))
        await here.say("and then?", key="m2")
        seen = await looked(here)
        assert seen.turn is not None
        assert [one.event.text for one in seen.turn.user_messages] == ["go"]
        assert [one.event.text for one in seen.pending] == ["and then?"]
        assert texts(seen) == []
        events = [msgspec.json.decode(event, type=Event) for _, event in seen.turn.events]
        assert events == [Thought("hm"), Text("some words"), ToolCall("c1", "look", "{}"), ToolResult("c1", "seen")]
        known = TurnCursor(seen.turn.turn_id, seen.turn.attempt, seen.turn.events[1][0])
        later = (await looked(here, turn=known)).turn
        assert later is not None
        assert [event for _, event in later.events] == [event for _, event in seen.turn.events[2:]]
        told = (await looked(here, live_turn=known)).turn
        assert told is not None
        assert told.events == ()
        agent.says(None, None)
        await here.answered()


async def _has_said(here: Paged, count: int) -> bool:
    seen = await here.store.change_feed.snapshot(SOURCE)
    return seen is not None and seen.turn is not None and len(seen.turn.events) >= count


@awaited
async def test_a_question_is_seen_until_it_is_answered(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent) as here:
        agent.says("May I? ", AskPermission(ask_id="a", tool="rm", arguments='{"path":"x"}', least="owner"))
        await here.say("go", key="m1")
        await eventually(lambda: _asks(here))
        await here.gateway.idle()
        seen = await looked(here)
        assert seen.turn is not None
        assert seen.turn.state == "asking"
        assert seen.approval is not None
        assert seen.notices == [], "a question is no notice"
        await here.say(f"/approve {seen.approval.code}", key="m2")
        agent.says("Done.", None)
        await eventually(lambda: _is_over(here))
        after = await looked(here)
        assert (after.approval, after.turn) == (None, None)


async def _asks(here: Paged) -> bool:
    seen = await here.store.change_feed.snapshot(SOURCE)
    return seen is not None and seen.approval is not None


async def _is_over(here: Paged) -> bool:
    seen = await here.store.change_feed.snapshot(SOURCE)
    return seen is not None and seen.turn is None


@awaited
async def test_what_commands_say_is_kept_though_no_transcript_has_it(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("one", key="m1")
        await here.answered()
        await here.say("/whoami", key="m2")
        await here.answered()
        seen = await looked(here)
        assert len(seen.notices) == 1
        assert "web:owner" in seen.notices[0].text or "owner" in seen.notices[0].text
        assert texts(seen) == ["one", "you said: one"]


@awaited
async def test_a_turn_that_was_stopped_says_so_beside_the_transcript(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent) as here:
        await here.say("go", key="m1")
        agent.says("some words")
        await eventually(lambda: _has_said(here, 1))
        await here.say("/stop", key="m2")
        await here.answered()
        seen = await looked(here)
        assert [(ended.outcome, ended.stop) for ended in seen.ended_early] == [("stopped", "stop")]
        assert texts(seen) == ["go", "some words"]


@awaited
async def test_a_long_conversation_is_read_page_by_page(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("first of all", key="m")
        await here.answered()
        session_id = (await looked(here)).entry.session_id
        more = [{"role": "user", "content": f"text {n}"} for n in range(30)]
        await here.store.append_to_transcript(session_id, more)
        seen = await looked(here, limit=10)
        assert texts(seen) == [f"text {n}" for n in range(20, 30)]
        assert seen.has_earlier
        assert seen.preview == "first of all"
        earlier = await here.store.change_feed.earlier(SOURCE, str(seen.messages[0].ref), limit=19)
        assert [one.message["content"] for one in earlier.messages] == [f"text {n}" for n in range(1, 20)]
        assert earlier.has_earlier
        rest = await here.store.change_feed.earlier(SOURCE, str(earlier.messages[0].ref), limit=19)
        assert len(rest.messages) == 3
        assert not rest.has_earlier
        with pytest.raises(UnknownMessage):
            await here.store.change_feed.earlier(SOURCE, f"{session_id}:999")


@awaited
async def test_nobody_sees_what_is_another_persons(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("mine", key="m1")
        await here.say("theirs", key="m1", user=GUEST)
        await here.answered()
        session_id = (await looked(here)).entry.session_id
        theirs = web_source(GUEST, CONVERSATION)
        assert await here.store.change_feed.snapshot(theirs, session_id=session_id) is None
        with pytest.raises(UnknownSession):
            await here.store.change_feed.find(theirs, session_id=session_id)
        with pytest.raises(UnknownSession):
            await here.store.change_feed.fork(
                theirs, f"{session_id}:1", web_source(GUEST, "conversation-2"), session_id=session_id
            )
        with pytest.raises(InvalidRequest):
            await here.store.change_feed.fork(SOURCE, f"{session_id}:1", web_source(GUEST, "conversation-2"))
        listed = await here.store.change_feed.list_page(f"web:{GUEST}", WEB)
        assert [row.preview for row in listed] == ["theirs"]


@awaited
async def test_a_list_shows_titles_or_first_words_and_what_is_busy(location: str) -> None:
    agent = Talker("never")
    async with paged(location, agent) as here:
        for number, text in enumerate(("one", "two")):
            await here.say(text, key="m", conversation=f"conversation-{number}")
            agent.says("fine", None)
            await here.answered()
        first = await here.store.change_feed.find(web_source("owner", "conversation-0"))
        await here.store.set_title(first.entry.session_id, "Plans")
        await here.say("three is\nlong", key="m", conversation="conversation-3")
        rows = await here.store.change_feed.list_page("web:owner", WEB)
        shown = {str(row.entry.origin.chat_id): (row.entry.title, row.preview, row.is_busy) for row in rows}
        assert shown == {
            "owner.conversation-0": ("Plans", "", False),
            "owner.conversation-1": (None, "two", False),
            "owner.conversation-3": (None, "three is long", True),
        }
        page = await here.store.change_feed.list_page("web:owner", WEB, limit=2)
        rest = await here.store.change_feed.list_page("web:owner", WEB, limit=2, cursor=page.cursor)
        assert [len(page), len(rest)] == [2, 1]
        agent.says(None)
        await here.answered()


@awaited
async def test_a_fork_goes_on_at_an_address_of_its_own_and_is_made_once(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        for text in ("one", "two"):
            await here.say(text, key=text)
            await here.answered()
        seen, into = await looked(here), web_source("owner", "conversation-2")
        upto = str(seen.messages[1].ref)
        made = await here.store.change_feed.fork(SOURCE, upto, into)
        again = await here.store.change_feed.fork(SOURCE, upto, into)
        assert made.session_id == again.session_id != seen.entry.session_id
        await here.say("three", key="m", conversation="conversation-2")
        await here.answered()
        assert await here.transcript("conversation-2") == [
            ("user", "one"),
            ("assistant", "you said: one"),
            ("user", "three"),
            ("assistant", "you said: three"),
        ]
        assert len(await here.transcript()) == 4
        assert (await here.store.change_feed.find(into)).preview == "one"
        with pytest.raises(UnknownMessage):
            await here.store.change_feed.fork(SOURCE, f"{made.session_id}:1", web_source("owner", "conversation-3"))


@awaited
async def test_how_much_to_take_back_is_counted_in_exchanges(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        for text in ("one", "two", "three"):
            await here.say(text, key=text)
            await here.answered()
        seen = await looked(here)
        session_id, refs = seen.entry.session_id, [str(message.ref) for message in seen.messages]
        counts = [await here.store.change_feed.count_exchanges_since(session_id, refs[place]) for place in (4, 2, 0)]
        assert counts == [1, 2, 3]
        with pytest.raises(InvalidRequest):
            await here.store.change_feed.count_exchanges_since(session_id, refs[1])


@awaited
async def test_a_glance_changes_with_whatever_happens_and_with_nothing_else(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        places = [(SOURCE, None), (web_source("owner", "conversation-2"), None)]
        assert await here.store.change_feed.fingerprints(places) == [None, None]
        seen = []
        for text in ("one", "/whoami", "/undo"):
            await here.say(text, key=text.strip("/"))
            await here.answered()
            found, nothing = await here.store.change_feed.fingerprints(places)
            seen.append(found)
            assert nothing is None
        assert len(set(seen)) == 3
        assert await here.store.change_feed.fingerprints(places) == [seen[-1], None]
        assert await here.store.change_feed.fingerprints([]) == []


@awaited
async def test_what_is_redacted_or_erased_is_quoted_no_more(location: str) -> None:
    async with paged(location, ScriptedAgent(echo)) as here:
        await here.say("the word is plum", key="m1")
        await here.answered()
        for number in range(2):
            await here.say("/search plum", key=f"s{number}")
            await here.answered()
            assert len((await looked(here)).notices) == 1
            ref = (await looked(here)).messages[number].ref
            await here.store.redact(str(ref))
            assert (await looked(here)).notices == []
        await here.store.erase_person("web:owner")
        assert await here.store.change_feed.snapshot(SOURCE) is None
