"""What a gateway sends reaches a scripted chat: once, as it was meant, and every way to fail is told from the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from tests.system.test_scripted import Gateway, joined

from threadline.errors import InvalidRequest
from threadline.model.delivery import Target
from threadline.platforms.registry import PlatformSetup, make_platform
from threadline.platforms.shared import split
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Button,
    Capabilities,
    Gone,
    NotModified,
    Outgoing,
    PlatformError,
    RateLimited,
    TooLong,
    Transient,
    Unauthorized,
)
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

HOME = Target(platform="scripted", chat_id="home")
THREAD = Target(platform="scripted", chat_id="home", thread_id="t")
HI = Outgoing(text="hi")


def in_a_chat(
    scenario: Callable[[ScriptedChat, ScriptedPlatform], Awaitable[None]], capabilities: Capabilities | None = None
) -> None:
    """Runs the scenario with a chat and a platform that takes part in it."""

    async def run() -> None:
        chat = ScriptedChat() if capabilities is None else ScriptedChat(capabilities=capabilities)
        async with chat, joined(chat, Gateway().accept) as platform:
            await scenario(chat, platform)

    asyncio.run(run())


def test_what_is_sent_is_seen_where_it_was_sent_to() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        first = await platform.send(HOME, Outgoing(text="hi", reply_to="u1", buttons=(Button("A", "a"),)), key="k1")
        second = await platform.send(THREAD, HI, key="k2")
        await platform.typing(HOME)
        assert [message.message_id for message in chat.messages("home")] == [first, second]
        assert [message.message_id for message in chat.messages("home", "t")] == [second]
        seen = chat.messages()[0]
        assert (seen.text, seen.key, seen.reply_to, seen.buttons) == ("hi", "k1", "u1", (Button("A", "a"),))
        assert chat.messages("elsewhere") == []
        assert (chat.typings("home"), chat.typings("elsewhere"), chat.misuses) == (1, 0, [])

    in_a_chat(scenario)


def test_an_edited_message_says_the_new_text_and_what_it_said_before_is_known() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        message = await platform.send(HOME, HI, key="k")
        await platform.edit(HOME, message, Outgoing(text="hi th"))
        await platform.edit(HOME, message, Outgoing(text="hi there"))
        (seen,) = chat.messages("home")
        assert (seen.text, seen.edits) == ("hi there", ("hi", "hi th"))
        with pytest.raises(NotModified):
            await platform.edit(HOME, message, Outgoing(text="hi there"))
        chat.remove(message)
        with pytest.raises(Gone):
            await platform.edit(HOME, message, HI)
        assert chat.messages() == []

    in_a_chat(scenario)


def test_many_sends_at_once_arrive_in_order() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        numbers = [str(number) for number in range(50)]
        ids = await asyncio.gather(*(platform.send(HOME, Outgoing(text=text), key=text) for text in numbers))
        assert chat.texts() == numbers
        assert [message.message_id for message in chat.messages()] == ids

    in_a_chat(scenario)


@pytest.mark.parametrize(
    "error",
    [Transient("t"), Ambiguous("a"), TooLong("l"), BadMarkup("m"), Gone("g"), Unauthorized("u"), PlatformError("p")],
)
def test_a_call_fails_as_it_was_told_to_and_only_so_often(error: PlatformError) -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.fail_next(error, 2)
        for _ in range(2):
            with pytest.raises(type(error), match=str(error)) as raised:
                await platform.send(HOME, HI, key="k")
            assert type(raised.value) is type(error)
        assert chat.messages() == []
        await platform.send(HOME, HI, key="k")
        assert chat.texts() == ["hi"]

    in_a_chat(scenario)


def test_a_fault_meets_the_kind_of_call_that_it_is_for() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.rate_limit_next(7.5, on="edit")
        message = await platform.send(HOME, HI, key="k")
        with pytest.raises(RateLimited) as raised:
            await platform.edit(HOME, message, Outgoing(text="ho"))
        assert raised.value.retry_after == 7.5
        chat.fail_next(Transient("no"), on=None)
        with pytest.raises(Transient):
            await platform.typing(HOME)

    in_a_chat(scenario)


@pytest.mark.parametrize("hang_up", [False, True], ids=["told so", "wire cut"])
def test_a_swallowed_answer_is_ambiguous_and_the_message_is_there(hang_up: bool) -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.swallow_next(hang_up=hang_up)
        with pytest.raises(Ambiguous):
            await platform.send(HOME, HI, key="k")
        assert chat.texts() == ["hi"]
        await until_connected(platform)
        assert chat.texts() == ["hi", "again"]

    in_a_chat(scenario)


async def until_connected(platform: ScriptedPlatform) -> None:
    """Sends `again` as often as it takes to be connected."""
    while True:
        with contextlib.suppress(Transient):
            await platform.send(HOME, Outgoing(text="again"), key="again")
            return
        await asyncio.sleep(0.01)


def test_no_answer_in_time_is_ambiguous() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            options = chat.options | {"patience": 0.05}
            platform = make_platform("scripted", PlatformSetup("scripted", options=options))
            ready = asyncio.Event()
            running = asyncio.create_task(platform.run(Gateway().accept, ready))
            await ready.wait()
            chat.hold("answers")
            with pytest.raises(Ambiguous, match="did not answer"):
                await platform.send(HOME, HI, key="k")
            assert chat.texts() == ["hi"]
            await platform.close()
            await running

    asyncio.run(scenario())


def test_without_a_connection_it_has_certainly_not_arrived() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        with pytest.raises(Transient):
            await ScriptedPlatform(chat.address).send(HOME, HI, key="k")
        await chat.go_away()
        with pytest.raises(PlatformError):
            await platform.send(HOME, HI, key="k")
        with pytest.raises(Transient):
            await platform.send(HOME, HI, key="k")
        assert chat.messages() == []
        await chat.come_back()
        await until_connected(platform)

    in_a_chat(scenario)


def test_a_key_shows_one_message_where_keys_are_honoured_and_two_where_not() -> None:
    async def twice(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        first = await platform.send(HOME, HI, key="k")
        again = await platform.send(HOME, HI, key="k")
        once = chat.capabilities.idempotent_send
        assert (again == first, chat.texts()) == (once, ["hi"] if once else ["hi", "hi"])
        await platform.send(HOME, HI, key="another")
        assert len(chat.messages()) == (2 if once else 3)

    in_a_chat(twice, Capabilities(idempotent_send=True))
    in_a_chat(twice, Capabilities(idempotent_send=False))


@pytest.mark.parametrize(("unit", "fits"), [("chars", 10), ("utf16", 5), ("bytes", 2)])
def test_what_is_longer_than_declared_is_refused_in_the_declared_unit(unit: str, fits: int) -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        message = await platform.send(HOME, Outgoing(text="😀" * fits), key="k")
        with pytest.raises(TooLong):
            await platform.send(HOME, Outgoing(text="😀" * (fits + 1)), key="k")
        with pytest.raises(TooLong):
            await platform.edit(HOME, message, Outgoing(text="😀" * (fits + 1)))
        for part in split("😀" * 40, chat.capabilities.max_length, chat.capabilities.length_unit):
            await platform.send(HOME, Outgoing(text=part), key=part)
        assert "".join(chat.texts()[1:]) == "😀" * 40

    in_a_chat(scenario, Capabilities(max_length=10, length_unit=unit, edit=True))  # type: ignore[arg-type]


def test_what_was_not_declared_is_refused_and_remembered() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        message = await platform.send(HOME, HI, key="k")
        asked = [
            platform.edit(HOME, message, Outgoing(text="ho")),
            platform.typing(HOME),
            platform.send(HOME, Outgoing(text="ho", buttons=(Button("A", "a"),)), key="b"),
            platform.send(THREAD, HI, key="t"),
        ]
        for one in asked:
            with pytest.raises(PlatformError, match="has no"):
                await one
        assert chat.misuses == ["edit", "typing", "buttons", "threads"]
        assert chat.texts() == ["hi"]

    in_a_chat(scenario, Capabilities())


def test_a_message_without_words_is_refused() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        with pytest.raises(PlatformError, match="needs a text"):
            await platform.send(HOME, Outgoing(text=" \n"), key="k")

    in_a_chat(scenario)


def test_calls_are_held_before_they_arrive_and_answers_after() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.hold("calls")
        sending = asyncio.create_task(platform.send(HOME, HI, key="k"))
        await chat.wait_for(lambda: chat.held == 1)
        assert chat.texts() == []
        chat.hold("answers")
        chat.release("calls")
        await chat.wait_for(lambda: chat.texts() == ["hi"])
        assert not sending.done()
        chat.release()
        assert await sending == chat.messages()[0].message_id

    in_a_chat(scenario)


def test_a_call_that_has_arrived_is_carried_out_though_its_sender_is_gone() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.hold("calls")
        sending = asyncio.create_task(platform.send(HOME, HI, key="k"))
        await chat.wait_for(lambda: chat.held == 1)
        chat.disconnect()
        with pytest.raises(Ambiguous):
            await sending
        assert chat.texts() == []
        chat.release()
        await chat.wait_for(lambda: chat.texts() == ["hi"])

    in_a_chat(scenario)


def test_closing_lets_sends_in_flight_finish() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            platform = ScriptedPlatform(chat.address)
            ready = asyncio.Event()
            running = asyncio.create_task(platform.run(Gateway().accept, ready))
            await ready.wait()
            chat.hold("answers")
            sending = asyncio.create_task(platform.send(HOME, HI, key="k"))
            await chat.wait_for(chat.messages)
            closing = asyncio.create_task(platform.close())
            assert not (await asyncio.wait({closing}, timeout=0.05))[0]
            chat.release()
            await closing
            assert await sending == chat.messages()[0].message_id
            await asyncio.wait_for(running, 10)
            with pytest.raises(Transient):
                await platform.send(HOME, HI, key="k2")

    asyncio.run(scenario())


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.testing.scripted._CLOSING_SECONDS", 0.05)

    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        chat.hold("answers")
        sending = asyncio.create_task(platform.send(HOME, HI, key="k"))
        await chat.wait_for(chat.messages)
        await asyncio.wait_for(platform.close(), 10)
        with pytest.raises(Ambiguous):
            await sending

    in_a_chat(scenario)


def test_long_texts_and_halves_of_characters_get_through() -> None:
    async def scenario(chat: ScriptedChat, platform: ScriptedPlatform) -> None:
        long = "ü\n" * 200_000
        await platform.send(HOME, Outgoing(text=long), key="k1")
        await platform.send(HOME, Outgoing(text="half \ud83d"), key="k2")
        assert chat.texts() == [long, "half \ufffd"]

    in_a_chat(scenario, Capabilities(max_length=1_000_000))


def test_the_chat_gives_the_options_that_lead_to_it() -> None:
    async def scenario() -> None:
        declared = Capabilities(max_length=77, edit=True, edit_interval=0.25)
        async with ScriptedChat(capabilities=declared) as chat:
            platform = make_platform("scripted", PlatformSetup("birds", "work", chat.options))
            assert (platform.name, platform.account, platform.capabilities) == ("birds", "work", declared)
            gateway, ready = Gateway(), asyncio.Event()
            running = asyncio.create_task(platform.run(gateway.accept, ready))
            await ready.wait()
            chat.say("hi")
            await chat.wait_for(lambda: not chat.unacknowledged)
            await platform.send(HOME, HI, key="k")
            await platform.close()
            await running
            assert (gateway.accepted[0].source.platform, gateway.accepted[0].source.account) == ("birds", "work")
            assert chat.messages()[0].account == "work"

    asyncio.run(scenario())


def test_a_platform_takes_the_chat_to_be_able_to_do_what_chats_can_unless_told_otherwise() -> None:
    made = make_platform("scripted", PlatformSetup("scripted", options={"address": "h:1"}))
    assert ScriptedPlatform("h:1").capabilities == made.capabilities == ScriptedChat().capabilities


@pytest.mark.parametrize("options", [{}, {"address": 7}, {"address": "nowhere"}, {"address": "h:1", "adress": "h:1"}])
def test_options_that_lead_nowhere_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        make_platform("scripted", PlatformSetup("scripted", options=options))
