"""acpx, a client for scripts and agents, works with our agent: one prompt, named sessions, questions, a crash, and the rest."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.peers.acp.schema import INSTALLED, validate_wire
from tests.peers.acp.world import PATIENCE, command, home

pytestmark = pytest.mark.peers

PROGRAM = ["node", str(INSTALLED / "acpx" / "dist" / "cli.js")]
TAP = [sys.executable, str(Path(__file__).with_name("tap.py"))]
# How long its own process holds an agent that nobody uses, in seconds. At the end of a test each session is closed.
TTL = "60"


class Acpx:
    """The program, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = folder / "gate"
        # Where to write down what its agents are told and answer; nowhere unless a test says so.
        self.record: Path | None = None

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Runs it with these words."""
        tap = [] if self.record is None else [*TAP, str(self.record)]
        agent = shlex.join([*tap, *command(self.folder)])
        return subprocess.Popen(
            [*PROGRAM, "--agent", agent, "--format", "json", "--ttl", TTL, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=home(self.folder),
        )

    def run(self, *words: str) -> list[dict[str, Any]]:
        """What it writes, line by line, once it has ended well."""
        return self.finish(self.start(*words))

    def finish(self, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
        """The same for one that was started before."""
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, f"{output}\n{errors}"
        return [json.loads(line) for line in output.splitlines()]

    def talk(self, *words: str) -> list[dict[str, Any]]:
        """The same for a prompt: what it writes is the wire, which is as described."""
        return checked(self.run(*words))


@pytest.fixture
def acpx(tmp_path: Path) -> Iterator[Acpx]:
    """The program; its background processes are gone at the end."""
    acpx = Acpx(tmp_path)
    yield acpx
    for record in (tmp_path / ".acpx").rglob("*.lock"):
        with suppress(ProcessLookupError, ValueError, KeyError, TypeError):
            os.kill(json.loads(record.read_text())["pid"], signal.SIGTERM)


def checked(wire: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The wire as it is, once it was held to the protocol's description."""
    sent = {one["id"] for one in wire if one.get("method", "").startswith(("session/prompt", "initialize"))}
    assert sent, wire
    validate_wire([(to_whom(one), json.dumps(one)) for one in wire], exact=True)  # type: ignore[misc]
    return wire


def to_whom(line: dict[str, Any]) -> str:
    """Who a line is for: what the agent asks has ids of its own, and what it tells is named so."""
    ours = {"session/update", "session/request_permission"}
    if "method" in line:
        return "to_client" if line["method"] in ours else "to_agent"
    return "to_agent" if "outcome" in line.get("result", {}) else "to_client"


def said(wire: list[dict[str, Any]]) -> str:
    updates = [one["params"]["update"] for one in wire if one.get("method") == "session/update"]
    return "".join(one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk")


def stop_reason(wire: list[dict[str, Any]]) -> str:
    return str(next(one["result"]["stopReason"] for one in reversed(wire) if "stopReason" in one.get("result", {})))


def methods(wire: list[dict[str, Any]]) -> list[str]:
    return [one["method"] for one in wire if "method" in one]


def answers(record: Path, method: str) -> list[Any]:
    """What the agents answered to requests of this sort: the result, or the error. The whole record is as described."""
    told = [line.partition(" ") for line in record.read_text().splitlines()]
    validate_wire([(direction, line) for direction, _, line in told], exact=True)  # type: ignore[misc]
    asked, found = set(), []
    for one in (json.loads(line) for _, _, line in told):
        if one.get("method") == method:
            asked.add(one["id"])
        elif "method" not in one and one["id"] in asked:
            # The next agent's numbers begin anew.
            asked.remove(one["id"])
            found.append(one.get("result", one.get("error")))
    return found


def wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not come"
        time.sleep(0.02)


def test_one_prompt_is_answered_and_its_question_is_asked(acpx: Acpx) -> None:
    allowed, denied = acpx.start("--approve-all", "exec", "ask kitchen"), acpx.start("--deny-all", "exec", "ask cellar")
    for process, answer in ((allowed, "The window is open."), (denied, "Then the window stays shut.")):
        output, errors = process.communicate(timeout=PATIENCE)
        wire = checked([json.loads(line) for line in output.splitlines()])
        assert "session/request_permission" in methods(wire), errors
        assert (said(wire), stop_reason(wire)) == (answer, "end_turn")


def test_a_named_session_goes_on_after_its_agent_was_killed(acpx: Acpx) -> None:
    [made] = acpx.run("sessions", "new", "--name", "work")
    session = made["acpxSessionId"]
    assert said(acpx.talk("prompt", "-s", "work", "say basil")) == "basil"
    acpx.run("set-mode", "-s", "work", "allow")
    [shown] = acpx.run("sessions", "show", "work")
    os.kill(shown["pid"], signal.SIGKILL)
    again = acpx.talk("prompt", "-s", "work", "recall")
    assert "session/resume" in methods(again)
    assert said(again) == "say basil / basil"
    # The mode was kept by the agent: nobody is asked.
    asked = acpx.talk("prompt", "-s", "work", "ask kitchen")
    assert (said(asked), "session/request_permission" in methods(asked)) == ("The window is open.", False)
    [listed] = acpx.run("sessions", "list")
    assert [(one["sessionId"], one["cwd"]) for one in listed["sessions"]] == [(session, str(acpx.folder))]
    acpx.run("sessions", "close", "work")


def test_a_running_prompt_is_cancelled_and_the_session_goes_on(acpx: Acpx) -> None:
    acpx.run("sessions", "new", "--name", "work")
    running = acpx.start("prompt", "-s", "work", f"hold {acpx.gate}")
    wait_for(acpx.gate.with_suffix(".waits"))
    acpx.run("cancel", "-s", "work")
    assert stop_reason(acpx.finish(running)) == "cancelled"
    acpx.gate.touch()
    wire = acpx.talk("prompt", "-s", "work", "say on we go")
    assert (said(wire), stop_reason(wire)) == ("on we go", "end_turn")
    acpx.run("sessions", "close", "work")


def test_closing_a_session_closes_it_in_the_agent(acpx: Acpx) -> None:
    acpx.record = acpx.folder / "wire"
    acpx.run("sessions", "new", "--name", "work")
    acpx.talk("prompt", "-s", "work", "say basil")
    [closed] = acpx.run("sessions", "close", "work")
    assert closed["action"] == "session_closed"
    # It says so whatever it was answered.
    assert answers(acpx.record, "session/close") == [{}]
