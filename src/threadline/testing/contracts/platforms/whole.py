"""The adapter behind a whole gateway: what people get to see in the end."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator

from threadline.agents.function import FunctionTurn
from threadline.platforms.shared import length
from threadline.testing.contracts.platforms.staging import answering, as_shown, eventually, promised, shows, texts_in
from threadline.testing.contracts.platforms.worlds import PlatformWorld, Shown

_STREAMED = (
    "The tide comes in, slowly at first. By noon, ünd without a sound, it is at the door 🌊 and goes no further."
)
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NUMBERED = re.compile(r"(?:prose|code) \d+")


class WholeContract:
    """What an adapter and a gateway keep together."""

    @promised
    async def test_what_is_said_is_answered(self, world: PlatformWorld) -> None:
        async def answer(turn: FunctionTurn) -> str:
            return f"You said: {turn.text}"

        async with answering(world, answer):
            await world.say("hello", world.places[0])
            await eventually(lambda: shows(world, "You said: hello"))
            await world.say("hello again", world.places[0])
            await eventually(lambda: shows(world, "You said: hello", "You said: hello again"))

    @promised
    async def test_an_answer_goes_to_where_it_was_asked_for(self, world: PlatformWorld) -> None:
        async def answer(_: FunctionTurn) -> str:
            return "heard"

        async with answering(world, answer) as here:
            for where in world.places:
                await world.say("hello", where)
            for where in world.places:
                await eventually(functools.partial(shows, world, "heard", where=where))
            await here.gateway.settled(world.places[0].platform)
            assert [await texts_in(world, where) for where in world.places] == [["heard"]] * len(world.places)

    @promised
    async def test_a_long_answer_arrives_whole_in_parts_that_fit(self, world: PlatformWorld) -> None:
        text = ""

        async def answer(_: FunctionTurn) -> str:
            return text

        async with answering(world, answer) as here:
            can = here.platform.capabilities
            text = _long_text(can.max_length)
            await world.say("tell me all", world.places[0])
            wanted = _NUMBERED.findall(text)
            await eventually(lambda: _has_come(world, wanted[-1]))
            await here.gateway.idle()
            shown = await world.shown(world.places[0])
        assert len(shown) > 1
        assert [
            length(one.text, can.length_unit) for one in shown if length(one.text, can.length_unit) > can.max_length
        ] == []
        assert _NUMBERED.findall("\n".join(one.text for one in shown)) == wanted
        # A code block that was cut is code in each of its parts, and nothing else is.
        code = _NUMBERED.findall("\n".join(_code_in(world, shown)))
        assert code == [one for one in wanted if one.startswith("code")]

    @promised
    async def test_a_stream_ends_in_the_exact_text(self, world: PlatformWorld) -> None:
        seen = asyncio.Event()
        words = re.findall(r"\S+\s*", _STREAMED)

        async def answer(_: FunctionTurn) -> AsyncIterator[str]:
            yield "".join(words[:4])
            await seen.wait()
            for word in words[4:]:
                yield word
                await asyncio.sleep(0.01)

        async with answering(world, answer) as here:
            await world.say("go on", world.places[0])
            if here.platform.capabilities.edit:
                await eventually(lambda: _begins(world, _STREAMED))
            seen.set()
            await eventually(lambda: shows(world, _STREAMED))
            await here.gateway.idle()
            assert await shows(world, _STREAMED)

    @promised
    async def test_what_cannot_be_shown_with_its_markup_is_shown_without(self, world: PlatformWorld) -> None:
        async def answer(_: FunctionTurn) -> str:
            return "so **bold** a word"

        async with answering(world, answer) as here:
            await world.refuse_markup()
            await world.say("how bold?", world.places[0])
            await eventually(lambda: _has_come(world, "a word"))
            await here.gateway.idle()
            (shown,) = await texts_in(world)
            assert shown == "so bold a word" or not world.service.refuses_markup

    @promised
    async def test_a_lost_answer_is_followed_by_one_that_says_so(self, world: PlatformWorld) -> None:
        async def answer(_: FunctionTurn) -> str:
            return "only once"

        async with answering(world, answer) as here:
            marked = world.service.loses_answers and not here.platform.capabilities.idempotent_send
            await world.lose_answer()
            await world.say("how often?", world.places[0])
            await eventually(lambda: _comes(world, "only once", 2 if marked else 1))
            await here.gateway.settled(world.places[0].platform)
            shown = "\n".join(await texts_in(world))
            assert shown.count("only once") == (2 if marked else 1)
            assert ("twice" in shown) == marked


def _long_text(limit: int) -> str:
    """Prose and a long block of code, some times as long as a message may be."""
    wanted = limit * 2.5 if limit < 100_000 else limit * 1.05
    # With signs beyond the first plane: they are one character each, but two units of UTF-16 and four bytes.
    line = "a line like any other 🌊🌊🌊, of which there are many 🐚🐚🐚"
    # Few long lines where much is wanted: it is the length that counts, not the number of lines.
    filler = " ".join([line] * max(1, int(wanted // 40_000)))
    prose: list[str] = []
    code: list[str] = []
    size = 0
    while size < wanted:
        prose.append(f"prose {len(prose):04d}, {filler}")
        code.append(f"code {len(code):04d}  # {filler}")
        size += len(prose[-1]) + len(code[-1]) + 3
    half = len(prose) // 2
    block = "\n".join(code)
    return "\n\n".join([*prose[:half], f"```python\n{block}\n```", *prose[half:]])


def _code_in(world: PlatformWorld, shown: list[Shown]) -> list[str]:
    """What is shown as code."""
    if world.service.by_line:
        return _FENCED.findall("\n".join(one.text for one in shown))
    return [code for one in shown for code in (_FENCED.findall(one.text) if one.code is None else one.code)]


async def _has_come(world: PlatformWorld, words: str) -> bool:
    return await _comes(world, words, 1)


async def _comes(world: PlatformWorld, words: str, count: int) -> bool:
    return "\n".join(await texts_in(world)).count(words) >= count


async def _begins(world: PlatformWorld, text: str) -> bool:
    """Whether a beginning of the text is shown."""
    shown = await texts_in(world)
    return len(shown) == 1 and bool(shown[0]) and as_shown(world, text)[0].startswith(shown[0].rstrip())
