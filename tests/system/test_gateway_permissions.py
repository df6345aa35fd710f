"""Whenever a gateway dies while its agent asks for something, nothing is done that was not allowed, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from tests.system.gateway_world import World, in_worlds
from tests.system.outside import FOUND, answer_to

from threadline.testing.scripted import ChatMessage
from threadline.texts import gateway as texts

LEASE = 1.5


class Case(msgspec.Struct, frozen=True):
    """Where a gateway dies, or its store goes away for so long, and what becomes of the turn that asks."""

    point: str
    nth: int = 1
    outcome: str = "answered"
    outage: float | None = None
    # How often it is asked: whoever was allowed and broke off before the tool was called has to ask again.
    questions: int = 1


CASES = [
    Case("before ask"),
    Case("after ask"),
    # The turn that goes on is claimed a second time.
    Case("after claim", nth=2, questions=2),
    Case("before tool", questions=2),
    Case("after tool", outcome="interrupted"),
    Case("before finish", outcome="interrupted"),
    Case("after finish"),
    Case("before ask", outage=0.0),
    Case("after ask", outage=0.0),
    Case("before ask", outage=1.2 * LEASE),
    Case("after ask", outage=1.2 * LEASE),
]


def test_whatever_happens_around_a_question_its_answer_counts_once(location: str) -> None:
    found = in_worlds(location, CASES, broken_after, lease=LEASE)
    assert not found, "\n".join(found)


async def broken_after(world: World, number: int, case: Case) -> list[str]:
    """What is not as promised after that happened to the gateway of somebody who allows whatever they are asked."""
    ada = f"a{number}"
    world.people = (ada,)
    gateway = world.begin(case.point, nth=case.nth, outage=case.outage)
    await world.connected()
    world.say(ada, "one")
    allowed: set[str] = set()
    try:
        if case.outage is None:
            await world.chat.wait_for(lambda: allow_all(world, ada, allowed) and gateway.exitcode, timeout=60)
            await world.died_at_point(gateway)
            gateway = world.begin()
        await world.chat.wait_for(lambda: allow_all(world, ada, allowed) and is_over(world, ada), timeout=60)
    except TimeoutError as cause:
        return [f"{case.point} ({case.nth}, {case.outage}): {cause}"]
    await world.kill(gateway)
    found = list(faults(world, ada, case))
    if case.outage is not None and not world.has_passed(gateway):
        found.append("the store never went away")
    return [f"{case.point} ({case.nth}, {case.outage}): {fault}" for fault in found]


def allow_all(world: World, user: str, allowed: set[str]) -> bool:
    """Somebody says yes to every question, as soon as it stands in the chat for certain. Always true."""
    for question in [message for message in world.chat.messages(f"dm-{user}") if message.buttons]:
        state = world.rows(f"SELECT state FROM deliveries WHERE delivery_id = '{question.key}'")
        if question.message_id not in allowed and state in ([("sent",)], [("unknown",)]):
            allowed.add(question.message_id)
            world.chat.press(question.message_id, question.buttons[0].value, user=user)
    return True


def is_over(world: World, user: str) -> bool:
    if world.chat.unacknowledged or not world.rows("SELECT 1 FROM turns"):
        return False
    waiting = "SELECT 1 FROM inbox WHERE fate IS NULL"
    sending = "SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending', 'open')"
    return bool(world.outcomes(user)) and not any(map(world.rows, (waiting, sending)))


def faults(world: World, user: str, case: Case) -> Iterator[str]:
    (turn_id, outcome), *others = world.rows(
        "SELECT DISTINCT t.turn_id, t.outcome FROM turns t JOIN inbox i ON i.turn_pk = t.pk"
        f" WHERE i.dedupe_key = '{world.said[-1].key}'"
    )
    if others or outcome != case.outcome:
        yield f"the turn ended as {outcome}, {others}"
    tool_runs = world.agent.tool_runs[turn_id]
    if tool_runs > 1 or (outcome == "answered" and not tool_runs):
        yield f"the tool ran {tool_runs} times"
    messages = world.chat.messages(f"dm-{user}")
    questions = [message for message in messages if message.buttons]
    if len(questions) != case.questions:
        yield f"asked {len(questions)} times"
    yield from _unfinished(world)
    yield from _wrong_end(messages, case)


def _unfinished(world: World) -> Iterator[str]:
    for left in (
        "SELECT * FROM journal",
        "SELECT * FROM ready",
        "SELECT * FROM asks WHERE state = 'open'",
        "SELECT * FROM deliveries WHERE state NOT IN ('sent', 'unknown')",
    ):
        if rows := world.rows(left):
            yield f"{left}: {rows}"


def _wrong_end(messages: Sequence[ChatMessage], case: Case) -> Iterator[str]:
    """The answer, or that it broke off, stands in the chat once."""
    end = answer_to(["one"]) if case.outcome == "answered" else texts.BROKEN_OFF
    shown = [message.text for message in messages]
    if sum(text.endswith(end) for text in shown) != 1 or any(text == FOUND for text in shown):
        yield f"the chat shows {shown}"
