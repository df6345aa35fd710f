"""Strangers on Telegram: they get a code or nothing, and nothing of somebody else's by a name that they took."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.system.telegram_gateway import OnTelegram, at_telegram, awaited, on_telegram, rules_of

from threadline.ports.agent import Event, Text, Turn
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import StoredBytes
from threadline.testing.telegram import BotApi, Person
from threadline.texts import commands as commands_texts

SECRET = "the wine stands in the cellar"
MANY = 300
REFUSED = commands_texts.NOT_ALLOWED.rpartition("}")[2]


async def echo(turn: Turn) -> AsyncIterator[Event]:
    yield Text(f"you said: {turn.text}")


def taker(name: str, of: Person) -> Person:
    """A stranger who has taken everything of a person that can be taken."""
    return Person(id=of.id + 50_000, first_name=of.first_name, last_name=of.last_name, username=name)


async def is_paired(here: OnTelegram, user: Person) -> None:
    """Somebody asks for a code and is let in."""
    told = await here.ask("hello?", user=user)
    code = told.rsplit(" ", 1)[-1].strip("`")
    await here.store.people.approve_pairing(code, "guest")
    await here.api.wait_for(lambda: here.texts(user)[-1].startswith("You are welcome"))
    await here.heard()


async def gets_nothing_of(here: OnTelegram, session_id: str, *, user: Person, **where: Any) -> None:
    """Somebody who may talk here asks for what another said."""
    no = commands_texts.NO_SUCH_SESSION
    assert await here.ask("/search cellar", user=user, **where) == commands_texts.NOTHING_FOUND
    for name in (session_id, "Wine"):
        assert await here.ask(f"/resume {name}", user=user, **where) == no.format(name=name)
    shown = await here.ask("/sessions", user=user, **where)
    assert session_id not in shown
    assert "Wine" not in shown


@awaited
async def test_who_takes_a_freed_username_is_a_stranger(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        api, zoe = here.api, here.api.person("zoe")
        bob = api.person("bob")
        await is_paired(here, zoe)
        for person in (zoe, bob):
            await here.ask(SECRET, user=person)
        for person in (zoe, bob):
            mallory = taker(str(person.username), person)
            turns = len(agent.turns)
            assert "threadline pair approve" in await here.ask("/sessions", user=mallory)
            for text in ("/resume", "/search cellar", "/whoami", "hello", SECRET):
                assert await here.answers(text, user=mallory) == []
            assert len(agent.turns) == turns
            assert await here.store.people.find_role(f"telegram:{mallory.id}") is None


@awaited
async def test_who_takes_a_freed_username_has_no_role_in_a_group(location: str) -> None:
    async with on_telegram(location, ScriptedAgent(echo)) as here:
        api, crowd = here.api, here.api.supergroup()
        ada = api.person("ada")
        await here.ask(here.named(SECRET), user=ada, chat=crowd)
        mallory = taker("ada", ada)
        whoami = await here.ask("/whoami", user=mallory, chat=crowd)
        assert whoami.startswith(f"You are telegram:{mallory.id}, and I know you as group")
        for text in ("/resume", "/search cellar", "/sessions", "/new", "/model x", "/sethome"):
            told = await here.ask(text, user=mallory, chat=crowd)
            assert told.endswith(REFUSED)


@pytest.mark.parametrize("in_group", [False, True])
@awaited
async def test_who_takes_a_freed_username_and_is_let_in_finds_nothing_of_its_earlier_owner(
    location: str, in_group: bool
) -> None:
    async with on_telegram(location, ScriptedAgent(echo)) as here:
        where: dict[str, Any] = {"chat": here.api.supergroup()} if in_group else {}
        bob = here.api.person("bob")
        await here.ask(here.named(SECRET), user=bob, **where)
        await here.ask("/title Wine", user=bob, **where)
        (session,) = await here.sessions()
        mallory = taker("bob", bob)
        await is_paired(here, mallory)
        await gets_nothing_of(here, session.session_id, user=mallory, **where)
        # Bob, who is called otherwise now, has kept everything.
        renamed = msgspec.structs.replace(bob, username="bob_the_first", first_name="Robert")
        assert session.session_id in await here.ask("/sessions", user=renamed, **where)
        assert "cellar" in await here.ask("/search cellar", user=renamed, **where)


@pytest.mark.parametrize("shape", ["{id}", "telegram:{id}", "@{id}", "main:{id}"])
@awaited
async def test_an_id_in_the_place_of_a_name_is_a_name(location: str, shape: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        ada = here.api.person("ada")
        posed = shape.format(id=ada.id)
        mallory = Person(id=ada.id + 9, first_name=posed, last_name=posed, username=posed)
        assert "threadline pair approve" in await here.ask("/sessions", user=mallory)
        assert agent.turns == []
        crowd = here.api.supergroup(posed)
        assert "I know you as group" in await here.ask("/whoami", user=mallory, chat=crowd)


@awaited
async def test_chats_of_one_title_are_two(location: str) -> None:
    async with BotApi() as api:
        ours, theirs = api.supergroup("Family"), api.supergroup("Family")
        rules = msgspec.structs.replace(rules_of(api, groups=False), answer_groups=frozenset({f"telegram:{ours.id}"}))
        async with at_telegram(api, location, ScriptedAgent(echo), rules=rules) as here:
            zoe = api.person("zoe")
            assert await here.ask(here.named("hi"), user=zoe, chat=ours) == f"you said: {here.named('hi')}"
            assert await here.answers(here.named("hi"), user=zoe, chat=theirs) == []
            await here.ask(here.named(SECRET), user="bob", chat=ours)
            await here.ask("/title Wine", user="bob", chat=ours)
            session = next(one for one in await here.sessions() if one.title == "Wine")
            await gets_nothing_of(here, session.session_id, user=api.person("bob"), chat=theirs)
            assert session.session_id in await here.ask("/sessions", user="bob", chat=ours)


@awaited
async def test_hundreds_of_strangers_cost_three_messages_and_leave_no_word(
    location: str, stored_bytes: StoredBytes
) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        for round_ in range(3):
            for number in range(MANY):
                here.api.say(f"wordfromastranger {round_} {number}", user=f"stranger{number}")
        await here.api.wait_for(lambda: not here.bot.queue, timeout=40)
        await here.gateway.settled("telegram")
        assert len(here.api.messages()) == 3
        assert len(here.api.calls_of("sendMessage")) == 3
        assert len(await here.store.people.list_pairings()) == 3
        assert [line.fate for line in await here.store.maintenance.list_messages()] == ["refused"] * 3
        assert len(await here.store.list_sessions(include_ended=True)) == 0
        assert agent.turns == []
        # Whoever is known is not kept waiting by them.
        assert await here.ask("hello") == "you said: hello"
    assert b"wordfromastranger" not in stored_bytes()


@awaited
async def test_a_stranger_gets_a_code_once_in_ten_minutes(location: str) -> None:
    clock = FakeClock()
    async with on_telegram(location, ScriptedAgent(echo), store={"clock": clock}) as here:
        for minutes, codes in ((0, 1), (9, 1), (2, 2), (5, 2), (6, 3)):
            clock.advance(timedelta(minutes=minutes))
            for text in ("/start", "hello", "/help"):
                here.api.say(text, user="zoe")
            await here.heard()
            assert len(here.texts("zoe")) == codes


@awaited
async def test_strangers_in_a_group_that_is_not_answered_get_nothing(location: str, stored_bytes: StoredBytes) -> None:
    agent = ScriptedAgent(echo)
    async with BotApi() as api, at_telegram(api, location, agent, rules=rules_of(api, groups=False)) as here:
        crowd = api.supergroup()
        await here.ask(here.named("hello"), chat=crowd)
        ours = here.shown(crowd)[0].message_id
        for number in range(20):
            stranger = api.person(f"stranger{number}")
            said = api.say("wordfromastranger", chat=crowd, user=stranger)
            api.edit(said, here.named("wordfromastranger"))
            for text in (here.named("wordfromastranger"), "/start", "/help@our_bot", "/approve ABCD"):
                api.say(text, chat=crowd, user=stranger)
            api.say("wordfromastranger", chat=crowd, user=stranger, reply_to=ours)
        await here.heard()
        assert len(api.messages()) == len(agent.turns) == 1
        assert len(await here.store.maintenance.list_messages()) == 1
        assert await here.store.people.list_pairings() == []
    assert b"wordfromastranger" not in stored_bytes()


@awaited
async def test_start_is_a_code_for_strangers_and_a_welcome_for_those_who_are_known(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent, welcome=True) as here:
        assert "threadline pair approve" in await here.ask("/start", user="zoe")
        assert "threadline pair approve" in await here.ask("/start from-a-link", user="zoe2")
        for text in ("/start", "/start from-a-link", "/START@Our_Bot"):
            assert await here.ask(text, user="bob") == commands_texts.START.replace("`", "")
        assert agent.turns == []


@awaited
async def test_only_new_words_of_ones_own_are_commands(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        api = here.api
        await here.ask("hello")
        origin = {"type": "user", "date": 1, "sender_user": api.person("eve").wire}
        assert await here.ask("/new", forward_origin=origin) == "you said: /new"
        ours = here.shown()[0].message_id
        answered = await here.ask("what is that?", reply_to=ours, quote={"text": "/new", "position": 0})
        assert "what is that?" in answered
        said = api.say("oh")
        await here.heard()
        assert await here.told(lambda: api.edit(said, "/new")) == []
        assert len(await here.store.list_sessions(include_ended=True)) == 1
        assert len(agent.turns) == 4


@awaited
async def test_a_command_may_stand_below_a_picture_and_is_only_for_the_bot_that_it_names(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        api, crowd = here.api, here.api.supergroup()
        photo = api.add_file(b"\x89PNG", kind="photo")
        me = f"You are telegram:{api.person('ada').id}"
        assert (await here.ask("/whoami", photo=photo)).startswith(me)
        assert (await here.ask("/whoami@OUR_bot", chat=crowd)).startswith(me)
        named = ("/whoami@other_bot", "/new@our_bot_2 x", "/stop@our")
        places: list[dict[str, Any]] = [{}, {"chat": crowd}, {"photo": photo}, {"chat": crowd, "photo": photo}]
        for text, where in itertools.product(named, places):
            assert await here.answers(text, **where) == []
        assert agent.turns == []
