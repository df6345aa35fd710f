"""Updates that are huge, odd or forged: each comes to a clear end, and none keeps the next one waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.system.telegram_gateway import OnTelegram, at_telegram, awaited, on_telegram

from threadline.ports.agent import AskPermission, Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.testing.telegram import BotApi, Chat, Json, ShownMessage
from threadline.texts import commands as commands_texts
from threadline.texts import gateway as texts

SHELL = AskPermission(ask_id="c1", tool="shell", arguments='{"command": "rm notes"}')


async def echo(turn: Turn) -> AsyncIterator[Event]:
    yield Text(f"you said: {turn.text}"[:200])


async def careful(turn: Turn) -> AsyncIterator[Event]:
    """Does nothing that nobody allowed."""
    answer = turn.permitted(SHELL)
    if answer is None:
        yield SHELL
    else:
        yield Text(f"allowed: {answer}")


def raw_message(here: OnTelegram, chat: Chat | None = None, **fields: Any) -> Json:
    """A message that Telegram would not send; `None` takes a field away."""
    usual = {
        "message_id": 900 + len(here.bot.confirmed),
        "date": here.api.now,
        "chat": (chat or here.api.private("ada")).wire,
        "from": here.api.person("ada").wire,
        "text": "hello",
    }
    return {name: value for name, value in (usual | fields).items() if value is not None}


async def still_answers(here: OnTelegram) -> None:
    assert await here.ask("and now?", user="tim") == "you said: and now?"


@pytest.mark.parametrize("caption", [False, True])
@awaited
async def test_a_text_of_a_million_signs_is_refused_with_a_reason(location: str, caption: bool) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        more = {"photo": here.api.add_file(b"\x89PNG", kind="photo")} if caption else {}
        assert await here.ask("x" * (1 << 20), **more) == texts.TOO_MUCH
        assert agent.turns == []
        (line,) = await here.store.maintenance.list_messages()
        assert line.fate == "refused"
        assert len((await here.store.maintenance.trace_message(line.pk)).raw or "") < 2_000
        await still_answers(here)


@awaited
async def test_a_quoted_text_of_a_million_signs_harms_nothing(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        answered = raw_message(here, text="x" * (1 << 20), message_id=1)
        here.api.raw({"message": raw_message(here, reply_to_message=answered)})
        await here.heard()
        assert len(agent.turns) == 1
        assert "hello" in agent.turns[0].text
        await still_answers(here)


@awaited
async def test_three_hundred_marks_in_a_text_are_only_marks(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        text = "\U0001f469" * 150 + "@our_bot"
        marks = [
            {"type": kind, "offset": place, "length": length}
            for place, kind, length in [
                *((number, "bold", 1) for number in range(290)),
                (-5, "mention", 10**12),
                (10**12, "bot_command", 5),
                (3, "mention", -1),
                (5, "never heard of", 0),
                (300, "mention", 8),
            ]
        ]
        crowd = here.api.supergroup()
        assert len(await here.ask(text, chat=crowd, entities=marks)) == 168
        assert agent.turns[0].text == text


@pytest.mark.parametrize(
    "update",
    [
        pytest.param({"telepathy": {"thought": "hm"}}, id="a kind that nobody knows"),
        pytest.param({}, id="nothing"),
        pytest.param({"message": None}, id="no message"),
        pytest.param({"message": []}, id="a list"),
        pytest.param({"message": {"message_id": 1, "chat": {"id": "x"}}}, id="an id that is no number"),
        pytest.param({"message": {"message_id": 1, "date": 10**15, "chat": {"id": 7, "type": "private"}}}, id="a date"),
        pytest.param({"callback_query": {"id": "1"}}, id="nobody pressed"),
        pytest.param({"poll": {"id": "1"}}, id="a poll"),
    ],
)
@awaited
async def test_what_makes_no_sense_is_passed_over(location: str, update: Json) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        here.api.raw(update)
        await still_answers(here)
        assert len(agent.turns) == 1
        lines = await here.store.maintenance.list_messages()
        assert {line.fate for line in lines} <= {"parked", "answered"}


@awaited
async def test_a_message_of_nobody_is_a_strangers(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        crowd = here.api.supergroup()
        mention: Json = {"text": "@our_bot hi", "entities": [{"type": "mention", "offset": 0, "length": 8}]}
        here.api.raw({"message": raw_message(here, chat=crowd, **mention | {"from": None})})
        await here.heard()
        assert [turn.role for turn in agent.turns] == ["group"]
        # The chat of the owner, and nobody says who writes there.
        here.api.raw({"message": raw_message(here, **{"from": None})})
        await here.heard()
        assert len(agent.turns) == 1
        await still_answers(here)


@pytest.mark.parametrize("date", [0, -1, 4_000_000_000])
@awaited
async def test_a_date_that_can_not_be_is_no_reason_not_to_answer(location: str, date: int) -> None:
    async with on_telegram(location, ScriptedAgent(echo)) as here:
        here.api.raw({"message": raw_message(here, date=date)})
        await here.heard()
        assert here.texts() == ["you said: hello"]
        assert await here.ask("again") == "you said: again"


@awaited
async def test_ten_pictures_with_words_are_one_question(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent, burst_seconds=0.3) as here:
        for number in range(10):
            photo = here.api.add_file(b"\x89PNG%d" % number, kind="photo")
            here.api.say(f"caption {number}", photo=photo, media_group_id="77")
        await here.heard()
        (turn,) = agent.turns
        assert sum(len(spoken.attachments) for spoken in turn.messages) == 10
        assert [f"caption {number}" in turn.text for number in range(10)] == [True] * 10


@awaited
async def test_what_waited_at_telegram_while_no_gateway_ran_is_one_question(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with BotApi() as api:
        # More than one answer of Telegram's brings, and more than may wait.
        for number in range(150):
            api.say(f"question {number}")
        async with at_telegram(api, location, agent, burst_seconds=2.0) as here:
            await here.heard()
            (turn,) = agent.turns
            assert [spoken.text for spoken in turn.messages] == [f"question {number}" for number in range(150)]
            assert len(here.texts()) == 1
            assert await here.store.maintenance.list_messages("refused") == []


@awaited
async def test_an_answer_to_what_is_gone_and_an_edit_of_what_was_never_seen(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        await here.ask("hello")
        (ours,) = here.shown()
        here.api.remove(ours)
        gone = {"message_id": ours.message_id, "date": 0, "chat": here.api.private("ada").wire}
        here.api.raw({"message": raw_message(here, text="why?", reply_to_message=gone)})
        await here.heard()
        assert here.texts() == ["you said: why?"]
        never = raw_message(here, text="/new", message_id=555, edit_date=here.api.now)
        here.api.raw({"edited_message": never})
        await still_answers(here)
        assert len(agent.turns) == 3
        assert len(here.texts()) == 1
        assert len(await here.store.list_sessions(include_ended=True)) == 2


async def is_asked(here: OnTelegram, **where: Any) -> ShownMessage:
    """Ada's agent asks for a tool; the question, with its buttons."""
    await here.ask(here.named("tidy up"), **where)
    return here.shown(where.get("chat", "ada"))[-1]


def press(here: OnTelegram, value: str | None, *, user: str, message: Json | None) -> None:
    """Somebody's app sends whatever it likes for a button."""
    number = f"forged{len(here.bot.confirmed)}{user}{value}"
    query: Json = {"id": number, "from": here.api.person(user).wire, "message": message, "data": value}
    here.bot.queries.add(number)
    here.api.raw({"callback_query": {name: field for name, field in query.items() if field is not None}})


def shown_as(here: OnTelegram, shown: ShownMessage, chat: Chat) -> Json:
    return {
        "message_id": shown.message_id,
        "date": 1,
        "chat": chat.wire,
        "from": here.bot.person.wire,
        "text": shown.text,
    }


@pytest.mark.parametrize(
    ("user", "refused"),
    [
        ("bob", commands_texts.NOT_YOURS_TO_ALLOW),
        ("tim", commands_texts.NOT_YOURS_TO_ALLOW),
        ("zoe", commands_texts.NOT_ALLOWED),
    ],
    ids=["a guest", "somebody trusted", "a stranger"],
)
@awaited
async def test_nobody_allows_with_a_button_what_is_the_owners_to_allow(location: str, user: str, refused: str) -> None:
    agent = ScriptedAgent(careful)
    async with on_telegram(location, agent) as here:
        crowd = here.api.supergroup()
        question = await is_asked(here, chat=crowd)
        yes, _ = question.buttons
        whom = commands_texts.ROLE_MEANS["guest" if user == "zoe" else "owner"]
        (told,) = await here.told(lambda: here.api.press(question, yes, user=user), crowd)
        assert told == refused.format(tool="shell", usage="/approve [CODE]", whom=whom)
        assert len(agent.turns) == 1
        await here.told(lambda: here.api.press(question, yes), crowd)
        assert here.texts(crowd)[-1] == "allowed: True"
        assert not here.bot.queries


@awaited
async def test_a_button_counts_in_its_own_chat_alone(location: str) -> None:
    agent = ScriptedAgent(careful)
    async with on_telegram(location, agent) as here:
        question = await is_asked(here)
        yes, _ = question.buttons
        for user in ("bob", "tim", "zoe"):
            press(here, yes, user=user, message=shown_as(here, question, here.api.private(user)))
        crowd = here.api.supergroup()
        for user in ("ada", "bob", "zoe"):
            press(here, yes, user=user, message=shown_as(here, question, crowd))
        await here.heard()
        assert len(agent.turns) == 1
        assert not [text for text in here.api.texts() if text.startswith("allowed")]
        assert await here.store.approvals.find_open((await asked_session(here)).session_id) is not None


async def asked_session(here: OnTelegram) -> Any:
    ada = str(here.api.person("ada").id)
    return next(one for one in await here.sessions() if one.origin.chat_id == ada)


@awaited
async def test_forged_and_stale_buttons_do_nothing(location: str) -> None:
    agent = ScriptedAgent(careful)
    async with on_telegram(location, agent) as here:
        question = await is_asked(here)
        place = shown_as(here, question, here.api.private("ada"))
        forged = ("/new", "/approve WRNG", "hello", "", "/approve " + "x" * 5_000, "/approve\n/new", "\u202e/approve")
        for value in forged:
            press(here, value, user="ada", message=place)
        press(here, None, user="ada", message=place)
        press(here, question.buttons[0], user="ada", message=None)
        await here.heard()
        assert len(agent.turns) == 1
        assert len(await here.store.list_sessions(include_ended=True)) == 1
        _, no = question.buttons
        here.api.press(question, no)
        await here.heard()
        assert here.texts()[-1] == "allowed: False"
        stale = await here.told(lambda: here.api.press(question, question.buttons[0]))
        assert stale == [commands_texts.NOTHING_ASKED]
        await here.api.wait_for(lambda: not here.bot.queries)
