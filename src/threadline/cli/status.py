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

    load, alerts, listeners = with_gateway_store(db, _read_status)
    holder = served_by(db)
    if as_json:
        process, address = (holder.process, holder.address or None) if holder else (None, None)
        document = {"served_by": process, "address": address, "load": load, "alarms": alerts, "listeners": listeners}
        render.show_json(document)
        return
    waiting = render.count_text(load.waiting_messages, "message")
    if load.waiting_since is not None:
        waiting += f", the first since {render.format_time(load.waiting_since)}"
    facts: list[tuple[str, str]] = [
        ("Gateway", f"served by {holder}" if holder else "none on this machine; `threadline serve` starts one"),
        ("Waiting", waiting),
        ("Running", render.count_text(load.running_turns, "turn")),
        ("To be sent", render.count_text(load.waiting_deliveries, "delivery", "deliveries")),
        ("Parked", render.count_text(load.parked_deliveries, "delivery", "deliveries")),
    ]
    facts += [("Listening", f"as {lease.name} by the gateway {lease.owner}") for lease in listeners]
    facts += [("Alarm", f"{alert.text} (since {render.format_time(alert.since)})") for alert in alerts]
    render.show_facts(facts)
    if load.parked_deliveries:
        render.print_note("`threadline outbox list --state parked` shows what could not be sent, and why.")


def doctor(agent: Agent = None, config: ConfigFile = None, db: Db = None, as_json: AsJson = False) -> None:
    """Say what a gateway would find here, what is missing, and how to fix it.

    Nothing is changed and nothing is sent. The exit code is 1 if anything is wrong.
    """
    from threadline.cli.doctor import run_checks

    results = list(run_checks(agent=agent, config=config, db=db))
    problems = sum(bool(result.problem) for result in results)
    if as_json:
        render.show_json(results)
    else:
        for result in results:
            render.show_check(result.subject, result.details, problem=result.problem, hint=result.hint)
    if problems:
        if not as_json:
            render.print_error(f"{render.count_text(problems, 'fault')} found")
        raise typer.Exit(1)
    if not as_json:
        render.print_line("All that a gateway needs is there.")


async def _read_status(store: GatewayStore) -> tuple[QueueCounts, list[OwnerAlert], list[NamedLease]]:
    return await store.maintenance.queue_counts(), await store.owner_alerts.list_open(), await store.leases.list_all()
