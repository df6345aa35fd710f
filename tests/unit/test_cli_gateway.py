"""`threadline outbox`, `messages`, `status` and `doctor`: what an operator sees of a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tests.unit.conftest import Cli

from threadline.clock import to_instant
from threadline.model.delivery import Park, Target, target_of
from threadline.model.inbound import Attachment, Inbound, Unreadable
from threadline.model.safe_text import safe_text
from threadline.model.source import SessionSource
from threadline.store.engine.sqlite.database import ServeLock
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest, RefuseRequest
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.owner_alerts import OwnerAlert
from threadline.store.work.turn_end import ClaimRequest

T = TypeVar("T")
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ADA = SessionSource(platform="telegram", chat_id="42", user_id="7", user_name="Ada")


def on(db: Path, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await GatewayStore.open(db) as store:
            return await work(store)

    return asyncio.run(run())


async def _parked(store: GatewayStore) -> int:
    """A delivery that could not be sent."""
    target = Target(platform="telegram", chat_id="42")
    await store.outbox.enqueue(NewDelivery(delivery_id="d1", target=target, text="what was said"))
    (delivery,) = await store.outbox.claim([("telegram", "main")], owner="test", duration=10**9, limit=1)
    await store.outbox.mark_failed(delivery, Park("the chat is gone"), error="the chat is gone")
    return int(delivery.lease.key)


async def _accepted(store: GatewayStore) -> int:
    event = Inbound(dedupe_key="k1", message_id="m1", source=ADA, sent_at=NOW, text="a secret of Ada's")
    admitted = await store.inbox.accept(
        AdmitRequest(
            event=event,
            resolve=store.resolve_request(ADA),
            lane="talk",
            person="telegram:7",
            role="guest",
            at=to_instant(NOW),
        )
    )
    assert admitted.pk is not None
    return admitted.pk


def test_a_parked_delivery_is_listed_with_its_reason_and_can_be_tried_again(db: Path, cli: Cli) -> None:
    number = on(db, _parked)
    listed = cli("outbox", "list", "--state", "parked")
    assert "the chat is gone" in listed.out
    assert cli("outbox", "retry", str(number)).code == 0
    (line,) = cli("outbox", "list", "--json").json()
    assert (line["state"], line["attempts"]) == ("pending", 0)


def test_a_dropped_delivery_keeps_no_words(db: Path, cli: Cli) -> None:
    number = on(db, _parked)
    assert cli("outbox", "drop", str(number)).code == 0
    (line,) = cli("outbox", "list", "--json").json()
    assert (line["state"], line["text"]) == ("dropped", "")
    again = cli("outbox", "drop", str(number))
    assert again.code == 1
    assert "outbox list" in again.err


def test_it_is_seen_that_a_delivery_has_files(db: Path, cli: Cli) -> None:
    files = tuple(Attachment(handle=f"file:{number}", name=f"\x1b[2J{number}.txt") for number in range(27))
    told = NewDelivery(delivery_id="d2", target=Target(platform="telegram", chat_id="42"), text="", files=files)
    on(db, lambda store: store.outbox.enqueue(told))
    assert "27" in cli("outbox", "list").out
    (line,) = cli("outbox", "list", "--json").json()
    assert line["files"][26] == "\x1b[2J26.txt"
    assert cli("outbox", "drop", str(line["pk"])).code == 0
    (line,) = cli("outbox", "list", "--json").json()
    assert line["files"] == []


def test_a_message_is_followed_to_the_files_of_its_answer(db: Path, cli: Cli) -> None:
    number = on(db, _accepted)

    async def answer(store: GatewayStore) -> None:
        claim = ClaimRequest(owner="w", turn_ids=("t1",), at=to_instant(NOW), duration=10**9, platforms=("telegram",))
        (claimed,) = await store.turns.claim(claim)
        file = Attachment(handle="file:1", name="plan.txt")
        reply = NewDelivery(
            delivery_id="t1.0",
            target=target_of(ADA),
            text="",
            kind="reply",
            turn_pk=claimed.lease.turn_pk,
            files=(file, file),
        )
        await store.outbox.enqueue(reply)

    on(db, answer)
    assert "pending, 0 tries, 2 files" in cli("messages", "show", str(number)).out


def test_a_state_or_fate_that_does_not_exist_is_named(db: Path, cli: Cli) -> None:
    on(db, _parked)
    for command in (("outbox", "list", "--state", "lost"), ("messages", "list", "--fate", "lost")):
        refused = cli(*command)
        assert refused.code == 2
        assert "lost" in refused.err


def test_a_message_is_followed_to_its_end_without_its_words(db: Path, cli: Cli) -> None:
    number = on(db, _accepted)
    (line,) = cli("messages", "list", "--json").json()
    assert (line["pk"], line["fate"], line["person"]) == (number, "waiting", "telegram:7")
    told = cli("messages", "show", str(number))
    assert "waiting" in told.out
    assert "secret" not in told.out + cli("messages", "list").out


def test_a_refused_message_has_its_reason(db: Path, cli: Cli) -> None:
    event = Inbound(dedupe_key="k2", message_id="m2", source=ADA, sent_at=NOW, text="let me in")
    refusal = RefuseRequest(event=event, person="telegram:7", role="group", at=to_instant(NOW), note="a stranger")
    on(db, lambda store: store.inbox.refuse(refusal))
    (line,) = cli("messages", "list", "--fate", "refused", "--json").json()
    assert line["note"] == "a stranger"
    assert "let me in" not in cli("messages", "show", str(line["pk"]), "--json").out


def test_what_nobody_could_read_is_listed_with_its_reason_and_shown_inert(db: Path, cli: Cli) -> None:
    raw = '{"text": "\x1b[2J\x1b]0;title\x07poison\u202e"}\r\nsecond line'
    event = Unreadable(
        platform="telegram", account="main", dedupe_key="u1", raw=raw, reason="it can't be read: \x1b[31mno id"
    )
    on(db, lambda store: store.inbox.park(event))
    on(db, _accepted)
    listed = cli("messages", "list", "--fate", "parked")
    assert "it can't be read: no id" in listed.out
    assert "telegram:7" not in listed.out
    (line,) = cli("messages", "list", "--fate", "parked", "--json").json()
    shown = cli("messages", "show", str(line["pk"]))
    assert '  {"text": "poison"}\n  second line\n' in shown.out
    for told in (listed, shown):
        assert safe_text(told.out) == told.out
    assert cli("messages", "show", str(line["pk"]), "--json").json()["raw"] == raw


def test_status_tells_what_waits_and_who_serves(db: Path, cli: Cli) -> None:
    on(db, _accepted)
    on(db, _parked)
    load = cli("status", "--json").json()
    assert load["served_by"] is None
    assert load["load"]["waiting_messages"] == 1
    assert load["load"]["parked_deliveries"] == 1
    with ServeLock(db, "process 4711") as lock:
        assert "served by process 4711\n" in cli("status").out
        lock.announce("http://127.0.0.1:8765/")
        assert "served by process 4711 at http://127.0.0.1:8765/\n" in cli("status").out
        told = cli("status", "--json").json()
        assert (told["served_by"], told["address"]) == ("process 4711", "http://127.0.0.1:8765/")


def test_status_tells_who_listens_where_only_one_can(db: Path, cli: Cli) -> None:
    on(db, lambda store: store.leases.acquire("telegram:42", "serve:a/telegram@main", duration=10**9))
    on(db, lambda store: store.leases.acquire("telegram:7", "serve:b/other@main", duration=-1))
    shown = cli("status").out
    assert "as telegram:42 by the gateway serve:a/telegram@main" in shown
    assert "serve:b" not in shown, "its lease has ended"
    assert [one["name"] for one in cli("status", "--json").json()["listeners"]] == ["telegram:42"]


def test_an_open_alarm_is_shown_until_it_is_over(db: Path, cli: Cli) -> None:
    alarm = OwnerAlert(name="agent:main", text="The agent main can't answer: no key.", since=NOW)
    on(db, lambda store: store.owner_alerts.raise_alert(alarm, ()))
    assert "no key" in cli("status").out
    shown = cli("status", "--json").json()["alarms"][0]
    assert shown["name"] == "agent:main"
    assert list(shown) == ["name", "text", "since", "is_told"]
    doctor = cli("doctor")
    assert doctor.code == 1
    assert "no key" in doctor.out
    on(db, lambda store: store.owner_alerts.clear("agent:main"))
    assert "no key" not in cli("status").out
    assert cli("doctor").code == 0


def test_doctor_tells_which_alarms_are_about_nothing_that_is_configured_here(db: Path, cli: Cli) -> None:
    for name in ("agent:main", "platform:telegram@main", "chat:telegram/main/42/", "parked:t1"):
        alarm = OwnerAlert(name=name, text=f"<{name}>", since=NOW)
        on(db, lambda store, alarm=alarm: store.owner_alerts.raise_alert(alarm, ()))  # type: ignore[misc]
    told = " ".join(cli("doctor").out.split())
    assert told.count("about something that is not in this configuration") == 1
    assert told.count("until it has worked again") == 2
    assert told.count("told for an hour") == 1


def test_doctor_finds_nothing_wrong_with_a_fresh_installation(db: Path, cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0
    assert not db.exists(), "looking makes nothing"


def test_doctor_names_an_agent_that_is_not_there(cli: Cli) -> None:
    done = cli("doctor", "--agent", "no_such_module:answer")
    assert done.code == 1
    assert "no_such_module" in done.out


def test_doctor_tells_every_fault_of_the_configuration(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[gateway]\nwhen_buzy = "queue"\n[web]\nport = "x"\n')
    done = cli("doctor", "--config", str(config))
    assert done.code == 1
    assert "when_busy" in done.out
    assert "web.port" in done.out
