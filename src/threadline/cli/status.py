"""`threadline status` and `threadline doctor`: how things stand, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, examples
from threadline.cli.serve import Agent, ConfigFile

if TYPE_CHECKING:
    from threadline.store.alarms import Alarm
    from threadline.store.gateway import GatewayStore
    from threadline.store.names import HeldName
    from threadline.store.stories import Load

STATUS_EXAMPLES = examples("threadline status", "threadline status --json")
DOCTOR_EXAMPLES = examples("threadline doctor", "threadline doctor --config ./threadline.toml")


def status(db: Db = None, as_json: AsJson = False) -> None:
    """Tell whether a gateway runs, and what waits, runs or is stuck."""
    from threadline.app import served_by, with_gateway_store

    load, alarms, listeners = with_gateway_store(db, _condition)
    holder = served_by(db)
    if as_json:
        process, address = (holder.process, holder.address or None) if holder else (None, None)
        told = {"served_by": process, "address": address, "load": load, "alarms": alarms, "listeners": listeners}
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
    facts += [("Alarm", f"{alarm.text} (since {render.when(alarm.since)})") for alarm in alarms]
    render.show_facts(facts)
    if load.parked_deliveries:
        render.note("`threadline outbox list --state parked` shows what could not be sent, and why.")


async def _condition(store: GatewayStore) -> tuple[Load, list[Alarm], list[HeldName]]:
    return await store.load(), await store.open_alarms(), await store.held_names()


def doctor(agent: Agent = None, config: ConfigFile = None, db: Db = None, as_json: AsJson = False) -> None:
    """Look at everything that a gateway needs and say what is wrong.

    Nothing is changed and nothing is sent. The exit code is 1 if anything is wrong.
    """
    from threadline.app import Serving, diagnose

    found: list[Any] = list(diagnose(Serving(db=db, agent=agent, config=config)))
    if as_json:
        render.show_json(found)
    else:
        for finding in found:
            render.say(f"{'!' if finding.fault else 'ok':>2}  {finding.what}")
            for line in finding.fault.splitlines():
                render.show_indented(line)
    if any(finding.fault for finding in found):
        raise typer.Exit(1)
