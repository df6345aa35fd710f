"""`threadline status`: how things stand. `threadline doctor`: what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples
from threadline.cli.serve import Agent, ConfigFile

if TYPE_CHECKING:
    from threadline.store.facade import GatewayStore
    from threadline.store.leases import NamedLease
    from threadline.store.maintenance import QueueCounts
    from threadline.store.work.owner_alerts import OwnerAlert

DOCTOR_EXAMPLES = examples("threadline doctor", "threadline doctor --config ./threadline.toml")
STATUS_EXAMPLES = examples("threadline status", "threadline status --json")


def status(db: Db = None, as_json: AsJson = False) -> None:
    """Tell whether a gateway runs, and what waits, runs or is stuck."""
    from threadline.app import served_by, with_gateway_store

    load, alerts, listeners = with_gateway_store(db, _condition)
    holder = served_by(db)
    if as_json:
        process, address = (holder.process, holder.address or None) if holder else (None, None)
        told = {"served_by": process, "address": address, "load": load, "alarms": alerts, "listeners": listeners}
        render.show_json(told)
        return
    waiting = render.counted(load.waiting_messages, "message")
    if load.waiting_since is not None:
        waiting += f", the first since {render.when(load.waiting_since)}"
    facts: list[tuple[str, str]] = [
        ("Gateway", f"served by {holder}" if holder else "none on this machine; `threadline serve` starts one"),
        ("Waiting", waiting),
        ("Running", render.counted(load.running_turns, "turn")),
        ("To be sent", render.counted(load.waiting_deliveries, "delivery", "deliveries")),
        ("Parked", render.counted(load.parked_deliveries, "delivery", "deliveries")),
    ]
    facts += [("Listening", f"as {one.name} by the gateway {one.owner}") for one in listeners]
    facts += [("Alarm", f"{alert.text} (since {render.when(alert.since)})") for alert in alerts]
    render.show_facts(facts)
    if load.parked_deliveries:
        render.note("`threadline outbox list --state parked` shows what could not be sent, and why.")


def doctor(agent: Agent = None, config: ConfigFile = None, db: Db = None, as_json: AsJson = False) -> None:
    """Say what a gateway would find here, what is missing, and how to fix it.

    Nothing is changed and nothing is sent. The exit code is 1 if anything is wrong.
    """
    from threadline.cli.doctor import diagnose

    findings = list(diagnose(agent=agent, config=config, db=db))
    faults = sum(bool(finding.fault) for finding in findings)
    if as_json:
        render.show_json(findings)
    else:
        for one in findings:
            render.show_finding(one.what, one.found, fault=one.fault, hint=one.hint)
    if faults:
        if not as_json:
            render.fail(f"{render.counted(faults, 'fault')} found")
        raise typer.Exit(1)
    if not as_json:
        render.say("All that a gateway needs is there.")


async def _condition(store: GatewayStore) -> tuple[QueueCounts, list[OwnerAlert], list[NamedLease]]:
    return await store.maintenance.queue_counts(), await store.owner_alerts.list_open(), await store.leases.list_all()
