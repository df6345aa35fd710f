"""What goes out: shown whole, where it belongs, with all that was declared and nothing that was not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable

import msgspec

from threadline.model.inbound import Arrival
from threadline.platforms.shared import length
from threadline.ports.platform import (
    Button,
    Gone,
    NotDeclared,
    NotModified,
    Outgoing,
    OutgoingFile,
    Platform,
    PlatformError,
    Verdict,
)
from threadline.testing.contracts.platforms.staging import (
    LETTER,
    Door,
    as_shown,
    eventually,
    heard,
    outcome_of,
    promised,
    running,
    shows,
    texts_in,
    to,
)
from threadline.testing.contracts.platforms.worlds import PlatformWorld

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
_YES_OR_NO = (Button("Yes", "q1:yes"), Button("No", "q1:no"))


class SendingContract:
    """What an adapter keeps of what it sends."""

    @promised
    async def test_a_message_is_shown_and_has_an_id_of_its_own(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            ids = [await platform.send(to(home), Outgoing(text=text), key=text) for text in ("one", "two", "three")]
            assert all(isinstance(message_id, str) and message_id for message_id in ids)
            assert len(set(ids)) == 3
            assert await texts_in(world) == ["one", "two", "three"]

    @promised
    async def test_many_may_send_at_once(self, world: PlatformWorld) -> None:
        texts = [f"text {n}" for n in range(12)]
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            sends = (platform.send(to(home), Outgoing(text=text), key=text) for text in texts)
            assert len(set(await asyncio.gather(*sends))) == len(texts)
            assert sorted(await texts_in(world)) == sorted(texts)

    @promised
    async def test_a_message_of_the_greatest_length_is_shown_whole(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        can = platform.capabilities
        # As many waves as fit, each of which is one character, two units or four bytes: it is the declared unit that counts.
        waves = "🌊" * (can.max_length // length("🌊", can.length_unit))
        text = waves + "x" * (can.max_length - length(waves, can.length_unit))
        async with running(platform, Door().accept):
            await platform.send(to(home), Outgoing(text=text), key="k")
            assert await texts_in(world) == [text]

    @promised
    async def test_a_plain_text_is_shown_as_it_is(self, world: PlatformWorld) -> None:
        text = "2 * 3 * 4, a_b_c, <b>, [x](y), `tick, **star, \\ and & so on\nsecond line: ünd 🌊"
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            await platform.send(to(home), Outgoing(text=text, is_plain=True), key="k")
            assert await texts_in(world) == as_shown(world, text)

    @promised
    async def test_an_answer_can_be_sent_while_an_event_is_being_accepted(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]

        async def accept(_: Arrival) -> Verdict:
            await platform.send(to(home), Outgoing(text="heard"), key="k")
            return "accepted"

        async with running(platform, accept):
            await world.say("hello", home)
            await eventually(lambda: shows(world, "heard"))

    @promised
    async def test_a_message_goes_to_its_chat_and_thread_alone(self, world: PlatformWorld) -> None:
        platform = world.connect()
        can = platform.capabilities
        places = {to(where): where for where in world.places}
        async with running(platform, Door().accept):
            for number, target in enumerate(places):
                await platform.send(target, Outgoing(text=f"to {number}"), key=f"k{number}")
            assert [await texts_in(world, where) for where in places.values()] == [
                [f"to {n}"] for n in range(len(places))
            ]
            if can.threads:
                assert any(target.thread_id for target in places), "it has threads: put one among the world's places"
                return
            astray = msgspec.structs.replace(to(world.places[0]), thread_id="9")
            await _refused(world, platform.send(astray, Outgoing(text="astray"), key="astray"), shown=["to 0"])

    @promised
    async def test_an_answer_stands_under_what_it_answers(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        async with running(platform, door.accept):
            await world.say("a question", home)
            asked = (await heard(door, 1))[0].message_id
            await platform.send(to(home), Outgoing(text="an answer", reply_to=asked), key="k")
            (shown,) = await world.shown(home)
            assert shown.text == "an answer"
            assert shown.reply_to == (asked if world.service.quotes else None)

    @promised
    async def test_typing_is_shown_where_it_is_declared(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            if not platform.capabilities.typing:
                await _refused(world, platform.typing(to(home)))
                return
            await platform.typing(to(home))
            assert await world.typings(home) == 1
            assert await texts_in(world) == []

    @promised
    async def test_the_same_key_shows_one_message_where_that_is_declared(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            ids = [await platform.send(to(home), Outgoing(text="one"), key="k") for _ in range(3)]
            once = platform.capabilities.idempotent_send
            assert len(set(ids)) == (1 if once else 3)
            await platform.send(to(home), Outgoing(text="one"), key="another")
            assert await texts_in(world) == ["one"] * (2 if once else 4)


class EditingContract:
    """What an adapter keeps that can edit; one that can't says so."""

    @promised
    async def test_an_edited_message_says_the_new_text_in_its_old_place(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            first = await platform.send(to(home), Outgoing(text="one"), key="k1")
            await platform.send(to(home), Outgoing(text="two"), key="k2")
            if not platform.capabilities.edit:
                changed = platform.edit(to(home), first, Outgoing(text="one and a half"))
                await _refused(world, changed, shown=["one", "two"])
                return
            for text in ("one and", "one and a half"):
                await platform.edit(to(home), first, Outgoing(text=text))
            assert await texts_in(world) == ["one and a half", "two"]

    @promised
    async def test_an_edit_that_changes_nothing_harms_nothing(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            message_id = await platform.send(to(home), Outgoing(text="one"), key="k1")
            outcome = await outcome_of(platform.edit(to(home), message_id, Outgoing(text="one")))
            assert outcome is None or isinstance(outcome, _unchanged(platform)), repr(outcome)
            assert await texts_in(world) == ["one"]

    @promised
    async def test_an_edit_of_what_is_not_there_says_so_or_shows_it(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            outcome = await outcome_of(platform.edit(to(home), "999999", Outgoing(text="one")))
            wanted = Gone if platform.capabilities.edit else NotDeclared
            assert outcome is None or isinstance(outcome, wanted), repr(outcome)
            assert await texts_in(world) == ([] if outcome else ["one"])


class ShowingContract:
    """Buttons and files: what an adapter keeps that declares them; one that does not refuses them."""

    @promised
    async def test_a_press_on_a_button_comes_back_with_its_value(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        question = Outgoing(text="May I?", buttons=_YES_OR_NO)
        async with running(platform, door.accept):
            if not platform.capabilities.buttons:
                await _refused(world, platform.send(to(home), question, key="k"))
                return
            message_id = await platform.send(to(home), question, key="k")
            (shown,) = await world.shown(home)
            assert (shown.text, shown.buttons) == ("May I?", ("Yes", "No"))
            for button in _YES_OR_NO:
                await world.press(message_id, button.value, home)
            pressed = await heard(door, 2)
            assert [(event.kind, event.button) for event in pressed] == [("button", b.value) for b in _YES_OR_NO]
            assert {event.source.chat_id for event in pressed} == {home.chat_id}
            assert {event.source.sender for event in pressed} == {home.sender}
            assert len({event.dedupe_key for event in pressed}) == 2

    @promised
    async def test_an_edit_takes_buttons_away(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        can = platform.capabilities
        async with running(platform, Door().accept):
            buttons = _YES_OR_NO if can.buttons else ()
            message_id = await platform.send(to(home), Outgoing(text="May I?", buttons=buttons), key="k")
            outcome = await outcome_of(platform.edit(to(home), message_id, Outgoing(text="You may.")))
            assert outcome is None if can.edit else isinstance(outcome, NotDeclared), repr(outcome)
            (shown,) = await world.shown(home)
            wanted = ("You may.", ()) if can.edit else ("May I?", tuple(button.label for button in buttons))
            assert (shown.text, shown.buttons) == wanted

    @promised
    async def test_a_file_goes_out_as_it_is(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        pixel = OutgoingFile(name="pixel.png", mime="image/png", body=_PIXEL)
        messages = [
            Outgoing(text="A letter", files=(LETTER,)),
            Outgoing(text="", files=(LETTER,)),
            Outgoing(text="A picture", files=(pixel,)),
        ]
        async with running(platform, Door().accept):
            for number, message in enumerate(messages):
                send = platform.send(to(home), message, key=f"k{number}")
                if platform.capabilities.files:
                    assert await send
                else:
                    await _refused(world, send)
            shown = [(one.text, one.files) for one in await world.shown(home)]
            wanted = [(one.text, tuple(file.body for file in one.files)) for one in messages]
            assert shown == (wanted if platform.capabilities.files else [])

    @promised
    async def test_an_album_goes_with_one_message_and_more_than_that_is_refused(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        can = platform.capabilities
        most = can.album if can.files else 0
        pictures = [OutgoingFile(name=f"{n}.png", mime="image/png", body=_PIXEL + bytes([n])) for n in range(most + 1)]
        async with running(platform, Door().accept):
            await _refused(world, platform.send(to(home), Outgoing(text="Many", files=tuple(pictures)), key="k1"))
            if can.files:
                await platform.send(to(home), Outgoing(text="Few", files=tuple(pictures[:most])), key="k2")
            shown = [file for message in await world.shown(home) for file in message.files]
            assert shown == [picture.body for picture in pictures[:most]]
            assert await texts_in(world) == ["Few"] * can.files


def _unchanged(platform: Platform) -> type[PlatformError]:
    return NotModified if platform.capabilities.edit else NotDeclared


async def _refused(world: PlatformWorld, call: Awaitable[object], *, shown: list[str] | None = None) -> None:
    """The call fails with `NotDeclared`, and what is shown is as it was."""
    outcome = await outcome_of(call)
    assert isinstance(outcome, NotDeclared), f"not declared, and not refused: {outcome!r}"
    assert await texts_in(world) == (shown or [])
