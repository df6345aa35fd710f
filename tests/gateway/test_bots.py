"""Two programs in one group: they are answered, but they do not talk in circles."""

from __future__ import annotations

from datetime import timedelta

from tests.gateway.talk import heard
from tests.gateway.world import Open, Running, awaited

from threadline.agents.echo import EchoAgent
from threadline.gateway.bots import MOST_IN_A_ROW, BotTalk
from threadline.model.inbound import Inbound
from threadline.testing import FakeClock, group
from threadline.texts import gateway as texts

DEN = "den"
TOLD = texts.BOTS_ALONE.format(count=MOST_IN_A_ROW)


async def echoes(here: Running, rounds: int) -> None:
    """A bot that answers whatever it hears, so often."""
    for number in range(rounds):
        before = len(here.texts(DEN))
        here.chat.say(f"beep {number}", user="bob", chat=DEN, chat_type="group", from_bot=True)
        await heard(here)
        await here.gateway.settled("scripted")
        if len(here.texts(DEN)) == before:
            return


@awaited
async def test_two_bots_in_a_group_stop_after_a_few_turns_and_say_so_once(opened: Open) -> None:
    async with opened(EchoAgent(pause=0.0)) as here:
        await echoes(here, 3 * MOST_IN_A_ROW)
        assert here.texts(DEN)[MOST_IN_A_ROW:] == [TOLD]
        fates = [line.fate for line in await here.store.maintenance.list_messages()]
        assert sorted(fates) == ["answered"] * MOST_IN_A_ROW + ["refused", "refused"]


@awaited
async def test_a_word_of_a_person_lets_bots_talk_on_also_one_that_is_not_for_us(opened: Open) -> None:
    async with opened(EchoAgent(pause=0.0)) as here:
        await echoes(here, 3 * MOST_IN_A_ROW)
        here.chat.say("nice weather", user="zoe", chat=DEN, chat_type="group", mention=False)
        await heard(here)
        await echoes(here, 3 * MOST_IN_A_ROW)
        answered = MOST_IN_A_ROW * ["an answer"] + [TOLD]
        assert [text if text == TOLD else "an answer" for text in here.texts(DEN)] == answered * 2


@awaited
async def test_what_bots_do_in_one_chat_is_nothing_to_another(opened: Open) -> None:
    async with opened(EchoAgent(pause=0.0)) as here:
        await echoes(here, 3 * MOST_IN_A_ROW)
        here.chat.say("beep", user="bob", chat="lair", chat_type="group", from_bot=True)
        await here.shown(1, "lair")
        assert TOLD not in here.texts("lair")


def test_a_bot_that_speaks_once_in_a_while_is_always_answered() -> None:
    clock, talk = FakeClock(), BotTalk()
    event = Inbound(dedupe_key="1", message_id="1", source=group("3"), sent_at=clock.now(), from_bot=True)
    for _ in range(3 * MOST_IN_A_ROW):
        assert not talk.is_enough(event, clock.now())
        talk.taken(event, clock.now())
        clock.advance(timedelta(hours=2))


@awaited
async def test_the_same_message_told_often_counts_once(opened: Open) -> None:
    async with opened(EchoAgent(pause=0.0)) as here:
        for _ in range(MOST_IN_A_ROW + 1):
            here.chat.say("beep", user="bob", chat=DEN, chat_type="group", from_bot=True, message_id="m1")
        await heard(here)
        await here.gateway.settled("scripted")
        await echoes(here, MOST_IN_A_ROW - 1)
        assert len(here.texts(DEN)) == MOST_IN_A_ROW
        assert TOLD not in here.texts(DEN)
