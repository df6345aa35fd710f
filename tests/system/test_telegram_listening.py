"""The bot hears everything once and in order, and confirms nothing that was not stored."""

from __future__ import annotations

import asyncio

import pytest
from tests.system.telegram_bot import Heard, listening, make_bot, opened, with_api

from threadline.model.inbound import IdChange, Inbound, Unreadable
from threadline.ports.platform import Contested, OfferedCommand, Unauthorized
from threadline.testing.telegram import BotApi, Fault, disconnect, rate_limit, refuse

TERMINATED = refuse(409, "Conflict: terminated by other getUpdates request; make sure that only one bot is running")


def test_an_update_is_confirmed_only_after_it_was_accepted() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        heard.holds = lambda _event: True
        api.say("one")
        api.say("two", user="bob")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: len(heard.begun) == 2)
            assert len(api.unconfirmed) == 2
            heard.go_on.set()
            await api.wait_for(lambda: not api.unconfirmed)
            assert sorted(heard.texts) == ["one", "two"]

    with_api(scenario)


def test_a_chat_keeps_its_order_and_waits_for_no_other() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        heard.holds = lambda event: isinstance(event, Inbound) and event.text == "slow"
        for text in ("slow", "after slow"):
            api.say(text, user="ada")
        for number in range(20):
            api.say(str(number), user="bob")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: len(heard.events) == 20)
            assert heard.texts == [str(number) for number in range(20)]
            heard.go_on.set()
            await api.wait_for(lambda: not api.unconfirmed)
            assert heard.texts[-2:] == ["slow", "after slow"]

    with_api(scenario)


def test_what_the_store_did_not_take_stays_unconfirmed_and_comes_again() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        heard.failing = 1
        said = [api.say(text, user="ada") for text in ("one", "two", "three")]
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        assert heard.texts == ["one", "two", "three"]
        assert [event.message_id for event in heard.inbound] == [str(one.message_id) for one in said]

    with_api(scenario)


def test_what_came_before_an_update_that_was_not_taken_is_confirmed() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        heard.holds = lambda event: isinstance(event, Inbound) and event.text == "two"
        said = [api.say(text, user="ada") for text in ("one", "two", "three")]
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: len(heard.begun) == 2)
            heard.failing = 100
            heard.go_on.set()
            await api.wait_for(lambda: len(api.unconfirmed) == 2)
            assert api.unconfirmed == [one.update_id for one in said[1:]]
            heard.failing = 0
            await api.wait_for(lambda: not api.unconfirmed)
        assert (heard.texts, heard.repeated) == (["one", "two", "three"], 0)

    with_api(scenario)


def test_a_poisonous_update_is_handed_on_and_blocks_nothing() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        api.say("before")
        api.raw({"message": {"message_id": "x", "chat": 7}})
        api.raw({"telepathy": {}})
        api.raw(
            b'{"update_id": 800000004, "message": {"message_id": 9, "chat": {"id": 5, "type": "private"}, "text": "\\ud800"}}'
        )
        api.say("after")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        assert sorted(heard.texts) == ["after", "before", "\ufffd"]
        assert [type(event) for event in heard.events].count(Unreadable) == 2

    with_api(scenario)


def test_nothing_is_missed_while_telegram_is_away() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            api.say("one")
            await api.wait_for(lambda: heard.texts == ["one"])
            await api.go_away()
            api.say("two")
            await api.come_back()
            await api.wait_for(lambda: heard.texts == ["one", "two"])
            api.disconnect()
            api.say("three")
            await api.wait_for(lambda: heard.texts == ["one", "two", "three"])
            await api.wait_for(lambda: not api.unconfirmed)
        assert heard.repeated == 0

    with_api(scenario)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(TERMINATED, id="another asked meanwhile"),
        pytest.param(rate_limit(1), id="asked to wait"),
        pytest.param(refuse(502, "Bad Gateway"), id="a gateway on the way is down"),
        pytest.param(disconnect(), id="the line is cut"),
    ],
)
def test_it_goes_on_after(fault: Fault) -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        api.fail_next("getUpdates", fault)
        api.say("hello")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: heard.texts == ["hello"])

    with_api(scenario)


def test_it_listens_once_telegram_is_there_even_if_it_was_not_at_the_start() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        api.say("hello")
        bot, ready = make_bot(api), asyncio.Event()
        await api.go_away()
        task = asyncio.create_task(bot.run(heard.accept, ready))
        await asyncio.sleep(0)
        assert not ready.is_set()
        await api.come_back()
        await api.wait_for(lambda: heard.texts == ["hello"])
        await bot.close()
        await task

    with_api(scenario)


def test_another_program_that_keeps_asking_with_our_token_is_told_to_the_caller() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot, ready = make_bot(api), asyncio.Event()
        api.fail_next("getUpdates", TERMINATED, 4)
        with pytest.raises(Contested, match="Conflict"):
            await bot.run(heard.accept, ready)
        assert not ready.is_set()
        # It does not believe the first answer now.
        task = asyncio.create_task(bot.run(heard.accept, ready))
        api.say("hello")
        await api.wait_for(lambda: heard.texts == ["hello"])
        assert not ready.is_set()
        await bot.close()
        await task

    with_api(scenario)


def test_a_second_bot_of_the_same_token_takes_the_messages_over_and_the_first_waits() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as first, listening(first, heard):
            await api.wait_for(lambda: api.polls)
            other = Heard()
            async with opened(make_bot(api)) as second, listening(second, other):
                api.say("for whom?")
                await api.wait_for(lambda: heard.texts + other.texts)
            await api.wait_for(lambda: not api.unconfirmed)
        assert set(heard.texts + other.texts) == {"for whom?"}

    with_api(scenario)


def test_a_webhook_is_removed_so_that_messages_come_here() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        api.bot.webhook = "https://example.org/hook"
        api.say("hello")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: heard.texts == ["hello"])
        assert api.bot.webhook == ""
        assert len(api.calls_of("deleteWebhook")) == 1

    with_api(scenario)


def test_a_token_that_telegram_does_not_know_ends_it() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot = make_bot(api, token="1:wrong")
        with pytest.raises(Unauthorized, match="@BotFather"):
            await bot.run(heard.accept, asyncio.Event())
        with pytest.raises(Unauthorized):
            await bot.open()
        await bot.close()

    with_api(scenario)


def test_a_token_that_is_revoked_ends_it() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot, listening(bot, heard) as task:
            await api.wait_for(lambda: api.polls)
            api.fail_next("getUpdates", refuse(401, "Unauthorized"))
            api.say("the last one")
            with pytest.raises(Unauthorized):
                await task
            assert heard.texts == ["the last one"]

    with_api(scenario)


def test_closing_ends_it_in_the_middle_of_a_long_wait() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot = make_bot(api)
        async with listening(bot, heard) as task:
            await api.wait_for(lambda: api.polls)
            async with asyncio.timeout(5):
                await bot.close()
                await task
            await bot.close()
            assert task.exception() is None

    with_api(scenario)


def test_it_can_be_stopped_and_started_again_without_a_gap() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot:
            for number in range(5):
                async with listening(bot, heard):
                    api.say(str(number))
                    await api.wait_for(lambda: len(heard.events) % 2)
                api.say(f"after {number}")
                async with listening(bot, heard):
                    await api.wait_for(lambda: not len(heard.events) % 2)
        assert heard.texts == [text for number in range(5) for text in (str(number), f"after {number}")]

    with_api(scenario)


def test_updates_that_were_numbered_anew_are_heard() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            api.say("one")
            await api.wait_for(lambda: not api.unconfirmed)
            # Telegram does so after a week of silence. The next poll knows nothing of the old numbers.
            message = {"message_id": 3, "date": 1, "chat": {"id": 5, "type": "private"}, "text": "two"}
            api.raw({"update_id": 17, "message": message})
            await api.wait_for(lambda: heard.texts[-1:] == ["two"] and not api.unconfirmed)

    with_api(scenario)


def test_what_was_said_before_and_after_a_group_moved_stays_on_its_side() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        group = api.group()
        heard.holds = lambda event: isinstance(event, Inbound) and event.text == "before"
        api.say("before", chat=group)
        new = api.migrate(group)
        api.say("after", chat=new)
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: heard.begun)
            await bot.open()
            assert len(heard.begun) == 1
            heard.go_on.set()
            await api.wait_for(lambda: not api.unconfirmed)
        before, moved, after = heard.events
        assert isinstance(moved, IdChange)
        assert (moved.old_id, moved.new_id) == (str(group.id), str(new.id))
        assert heard.texts == ["before", "after"]
        assert (before, after) == tuple(heard.inbound)
        assert heard.repeated == 1

    with_api(scenario)


def test_topics_are_told_by_name_once_their_name_was_heard() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        forum = api.supergroup(forum=True)
        thread = api.topic(forum, "Cats")
        api.say("meow", chat=forum, thread=thread)
        api.say("hi all", chat=forum)
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: len(heard.events) == 2)
        meow, general = (event.source for event in heard.inbound)
        assert (meow.chat_type, meow.thread_id, meow.chat_topic) == ("group", str(thread), "Cats")
        assert (general.thread_id, general.chat_topic) == (None, None)

    with_api(scenario)


def test_a_pressed_button_is_answered_after_it_was_accepted() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        heard.holds = lambda event: isinstance(event, Inbound) and event.kind == "button"
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            api.raw(pressed(api, "77"))
            await api.wait_for(lambda: heard.begun)
            assert api.bot.queries == {"77"}
            heard.go_on.set()
            await api.wait_for(lambda: not api.bot.queries)
            assert heard.inbound[0].button == "/approve ABCD"

    with_api(scenario)


def pressed(api: BotApi, number: str) -> dict[str, object]:
    api.bot.queries.add(number)
    chat = api.private("ada")
    message = {"message_id": 1, "date": 1, "chat": chat.wire, "from": api.bot.person.wire, "text": "May I?"}
    query = {"id": number, "from": api.person("ada").wire, "message": message, "data": "/approve ABCD"}
    return {"callback_query": query | {"chat_instance": "1"}}


def test_a_press_that_can_no_longer_be_answered_harms_nothing() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot, listening(bot, heard) as task:
            api.raw(pressed(api, "77"))
            api.bot.queries.clear()
            await api.wait_for(lambda: api.calls_of("answerCallbackQuery"))
            api.say("hello")
            await api.wait_for(lambda: heard.texts == ["", "hello"])
            assert not task.done()

    with_api(scenario)


def test_who_runs_a_group_is_known_when_they_give_a_command() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        group = api.supergroup()
        api.promote("ada", group)
        api.say("/new", chat=group, user="ada")
        api.say("/new", chat=group, user="bob")
        api.say("hello", chat=group, user="ada")
        api.say("/new", user="ada")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        in_group = [event for event in heard.inbound if event.source.chat_id == str(group.id)]
        assert [event.sender_is_admin for event in in_group] == [True, False, False]
        assert len(api.calls_of("getChatAdministrators")) == 1

    with_api(scenario)


def test_a_command_is_taken_even_where_telegram_does_not_say_who_runs_the_group() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        group = api.supergroup()
        api.promote("ada", group)
        api.fail_next("getChatAdministrators", refuse(400, "Bad Request: CHAT_ADMIN_REQUIRED"))
        api.say("/new", chat=group, user="ada")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        assert [event.sender_is_admin for event in heard.inbound] == [False]

    with_api(scenario)


def test_commands_stand_in_the_menu_now_and_when_they_change() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot = make_bot(api)
        bot.offer([OfferedCommand("new", "Start afresh"), OfferedCommand("Not-One", "x")])
        async with opened(bot), listening(bot, heard):
            await api.wait_for(lambda: api.bot.commands)
            assert menu(api) == ["new"]
            bot.offer([OfferedCommand("help", "What I can do")])
            await api.wait_for(lambda: menu(api) == ["help"])

    with_api(scenario)


def menu(api: BotApi) -> list[str]:
    return [command["command"] for commands in api.bot.commands.values() for command in commands]


def test_a_menu_that_telegram_does_not_take_keeps_nobody_from_talking() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot = make_bot(api)
        bot.offer([OfferedCommand("new", "Start afresh")])
        api.fail_next("setMyCommands", refuse(400, "Bad Request: BOT_COMMAND_INVALID"))
        async with opened(bot), listening(bot, heard) as task:
            await api.wait_for(lambda: api.calls_of("setMyCommands"))
            api.say("hello")
            await api.wait_for(lambda: heard.texts == ["hello"])
            assert not task.done()

    with_api(scenario)


def test_only_what_is_read_is_asked_for() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: api.polls)
            api.block("ada")
            api.unblock("ada")
            api.say("hello")
            await api.wait_for(lambda: not api.unconfirmed)
        assert len(api.bot.confirmed) == 1

    with_api(scenario)


def test_two_thousand_waiting_updates_are_all_heard_in_order() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        people = [f"p{number}" for number in range(40)]
        for number in range(2_000):
            api.say(str(number), user=people[number % 40])
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed, timeout=40)
        for person in people:
            own = [int(event.text) for event in heard.inbound if event.source.user_handle == person]
            assert own == sorted(own)
            assert len(own) == 50

    with_api(scenario)
