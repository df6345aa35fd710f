"""What an editor was told besides the agent's answers: kept with its place, for as long as its session is. On both engines."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.acp.editing import gateway, known, manager, open_gateway, replayed, run, runner, say
from tests.contract.gateways import Run

from threadline.acp.sessions import AsyncSessionManager, source_of
from threadline.model.delivery import Button, target_of
from threadline.model.view import Span, message_number, spans_up_to
from threadline.store.conversations.editor_sessions import SideMessage
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import NewDelivery
from threadline.testing import FakeClock

__all__ = ["gateway", "manager", "open_gateway", "run", "runner"]

ACCOUNT = ("acp", "main")


async def tell(
    store: GatewayStore,
    session_id: str,
    key: str,
    text: str,
    *,
    asked: str = "",
    receipt: str | None = None,
    buttons: tuple[Button, ...] = (),
) -> None:
    """Tells something in a session, as the gateway does, with the receipt that an editor gives."""
    target = target_of(source_of(session_id, "ada"))
    await store.outbox.enqueue(
        NewDelivery(delivery_id=key, target=target, text=text, command_text=asked, buttons=buttons, person="acp:ada")
    )
    (flying,) = await store.outbox.claim([ACCOUNT], owner="x", duration=10**9, limit=1)
    assert await store.outbox.mark_sent(flying, receipt or key)


async def asides(store: GatewayStore, session_id: str) -> tuple[SideMessage, ...]:
    return (await store.editor_sessions.history_plan(source_of(session_id, "ada"), agent="main")).side_messages


async def order(store: GatewayStore, manager: AsyncSessionManager, session_id: str) -> list[str]:
    """All that a replay tells, in its order."""
    whole = await store.editor_sessions.history_plan(source_of(session_id, "ada"), agent="main")
    told = await replayed(manager, session_id)
    out: list[str] = []
    passed = 0
    for aside in whole.side_messages:
        before = sum(span.hi - span.lo + 1 for span in spans_up_to(whole.spans, aside.after))
        out += [*told[passed:before], aside.text]
        passed = before
    return [*out, *told[passed:]]


def test_each_stands_where_it_was_told(
    manager: AsyncSessionManager, gateway: GatewayStore, clock: FakeClock, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    expected: list[str] = []
    for step in range(40):
        clock.advance(timedelta(seconds=1))
        if step % 3 == 1 or step in (0, 38, 39):
            run(tell(gateway, made.session_id, f"command.{step}.0", f"aside {step}", asked="/status"))
            expected.append(f"aside {step}")
        else:
            run(say(gateway, made, f"said {step}"))
            expected.append(f"said {step}")
    assert run(order(gateway, manager, made.session_id)) == expected


def test_a_fork_has_its_own(manager: AsyncSessionManager, gateway: GatewayStore, clock: FakeClock, run: Run) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, "one"))
    clock.advance(timedelta(seconds=1))
    run(tell(gateway, made.session_id, "command.1.0", "in the parent", asked="/status"))
    clock.advance(timedelta(seconds=1))
    fork = known(run(manager.fork_session(made.session_id)))
    clock.advance(timedelta(seconds=1))
    run(tell(gateway, fork.session_id, "command.2.0", "in the fork", asked="/status"))
    clock.advance(timedelta(seconds=1))
    run(say(gateway, fork, "two"))
    assert run(order(gateway, manager, fork.session_id)) == ["one", "in the fork", "two"]
    assert run(order(gateway, manager, made.session_id)) == ["one", "in the parent"]


def test_what_was_not_told_as_such_is_not_told_again(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    target = target_of(source_of(made.session_id, "ada"))
    run(tell(gateway, made.session_id, "ask", "May I?", buttons=(Button("Allow", "/approve 1"),)))
    # That a button was pressed; what went somewhere where it is read in another row's place.
    run(tell(gateway, made.session_id, "command.1.0", "You allowed it."))
    run(tell(gateway, made.session_id, "command.2.0", "elsewhere", asked="/status", receipt="another id"))
    run(tell(gateway, made.session_id, "command.3.0", "first part", asked="/help"))
    run(tell(gateway, made.session_id, "command.3.1", "second part", asked="/help"))
    run(tell(gateway, made.session_id, "welcome.1", "Welcome!"))
    run(
        gateway.outbox.enqueue(
            NewDelivery(delivery_id="command.4.0", target=target, text="to come", command_text="/usage")
        )
    )
    assert [(aside.command_text, aside.text) for aside in run(asides(gateway, made.session_id))] == [
        ("/help", "first part"),
        ("", "second part"),
        ("", "Welcome!"),
        ("/usage", "to come"),
    ]
    kept = {line.delivery_id: line.asked for line in run(gateway.outbox.list_page())}
    assert kept["command.2.0"] == ""
    assert kept["command.3.0"] == "/help"


@pytest.mark.parametrize("forgotten", ["a message", "somebody else", "herself"])
def test_a_command_is_forgotten_with_its_answer(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run, forgotten: str
) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, "one"))
    run(tell(gateway, made.session_id, "command.1.0", "Found: one", asked="/search one"))
    assert len(run(asides(gateway, made.session_id))) == 1
    if forgotten == "a message":
        seen = run(gateway.change_feed.snapshot(source_of(made.session_id, "ada"), agent="main"))
        assert seen is not None
        run(gateway.redact(seen.messages[0].ref))
    else:
        run(gateway.erase_person("telegram:9" if forgotten == "somebody else" else "acp:ada"))
    assert {(line.asked, line.text) for line in run(gateway.outbox.list_page())} <= {("", "")}


def test_parts_of_spans() -> None:
    spans = [Span(message_number(1, 1), message_number(1, 5)), Span(message_number(2, 1), message_number(2, 3))]
    assert spans_up_to(spans, 0) == []
    assert spans_up_to(spans, message_number(1, 2)) == [Span(message_number(1, 1), message_number(1, 2))]
    assert spans_up_to(spans, message_number(1, 5)) == spans[:1]
    assert spans_up_to(spans, message_number(2, 3)) == spans
