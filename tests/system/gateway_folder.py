"""The folder that a gateway is started in: its configuration, its agent and its plug-ins, as people have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from tests.system.outside import kind_of

# An agent that says how its turns may run again is a plug-in; the others are a function.
_REPLAYS = {"slow": "safe", "waits": "safe", "never": "never"}
_AGENT = """\
from tests.system.outside import asking

answer = asking("{address}")
"""
_PLUG_INS = """\
[threadline.agents]
outside = tests.system.outside:make_outside

[threadline.platforms]
crashing = tests.system.gateway_child:make_crashing
"""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway's configuration says."""

    chat: str
    agent: str
    # Who may speak.
    people: Sequence[str]
    # The seconds of a lease; those of the program itself where nothing is said.
    lease: float | None = None
    # How long a turn waits at first that a dead gateway left behind; as the program has it where nothing is said.
    back_off: float | None = None
    # Whether it is to pass crash points.
    crashes: bool = False


def furnish(folder: Path, agent: str) -> None:
    """Puts what is imported by name there: the function that reaches the agent at that address, and the plug-ins."""
    (folder / "my_agent.py").write_text(_AGENT.format(address=agent))
    plug_ins = folder / "crash_tests-1.0.dist-info"
    plug_ins.mkdir()
    (plug_ins / "METADATA").write_text("Metadata-Version: 2.1\nName: crash-tests\nVersion: 1.0\n")
    (plug_ins / "entry_points.txt").write_text(_PLUG_INS)


def configuration(wanted: Wanted) -> str:
    """A TOML file in which all these people may speak and are answered in their own way."""
    return "\n".join(_lines(wanted))


def _lines(wanted: Wanted) -> Iterator[str]:
    bound = [(user, kind_of(user)) for user in wanted.people if kind_of(user) in _REPLAYS]
    bindings = [f'{{agent = "{name}", platform = "scripted", chat = "dm-{user}"}}' for user, name in bound]
    yield f"bindings = [{', '.join(bindings)}]"
    yield '[gateway]\nwhen_busy = "queue"\nburst_seconds = 0.0\nwelcome = false'
    yield "turns_at_once = 64\nturns_per_platform = 64\nqueue_per_session = 1000"
    if wanted.lease is not None:
        yield f"lease_seconds = {wanted.lease}"
    if wanted.back_off is not None:
        yield f"crash_back_off_seconds = {wanted.back_off}"
    yield f"[access]\nguests = {json.dumps([f'scripted:{user}' for user in wanted.people])}"
    yield '[agents.main]\nkind = "function"\ncall = "my_agent:answer"'
    for name, replay in _REPLAYS.items():
        yield f'[agents.{name}]\nkind = "outside"\naddress = "{wanted.agent}"\nreplay = "{replay}"'
    yield f'[platforms.scripted]\nkind = "{"crashing" if wanted.crashes else "scripted"}"\naddress = "{wanted.chat}"'
