"""`threadline acp` as an editor starts it, and an editor on the official SDK in front of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeAlias

from tests.peers.acp.schema import INSTALLED, ROOT, validate_wire

Event: TypeAlias = dict[str, Any]
AGENT = "tests.peers.acp.agent:answer"
THREADLINE = str(Path(sys.executable).with_name("threadline"))
# A busy machine is slow; a test that fails has time to say so.
PATIENCE = 60.0


class Refused(Exception):
    """A request was answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


def command(folder: Path, agent: str = AGENT) -> list[str]:
    """What an editor's settings name."""
    return [THREADLINE, "acp", "--db", str(folder / "threadline.db"), "--agent", agent]


def home(folder: Path) -> dict[str, str]:
    """An environment in which nothing outside of the folder is read or written."""
    own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config")}
    return os.environ | own | {"PYTHONPATH": str(ROOT)}


class Editor:
    """An editor with an agent of its own. Everything that was on the wire is held to the protocol's description at the end."""

    def __init__(self, folder: Path, agent: str = AGENT) -> None:
        self._folder = folder
        self._agent = agent
        self._changed = threading.Condition()
        self._numbers = 0
        self.events: list[Event] = []

    def start(self, *, greets: bool = True) -> Self:
        """An agent runs and, unless it is not to be greeted, knows this editor."""
        script = str(Path(__file__).with_name("driver.mjs"))
        with (self._folder / "agent.log").open("a") as log:
            self._process = subprocess.Popen(
                ["node", script, *command(self._folder, self._agent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=INSTALLED.parent,
                env=home(self._folder),
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if greets:
            self.ask("initialize", protocolVersion=1, clientCapabilities={})
        return self

    def ask(self, method: str, **params: object) -> Any:
        """The answer to a request; `Refused` where it is an error."""
        return self.answer_to(self.begin(method, **params))

    def begin(self, method: str, **params: object) -> int:
        """Sends a request; its number."""
        self._numbers += 1
        self._tell({"do": "request", "number": self._numbers, "method": method, "params": params})
        return self._numbers

    def answer_to(self, number: int) -> Any:
        """Waits for the answer to that request."""
        answer = self.wait_for(lambda one: one["is"] == "answer" and one["number"] == number)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def notify(self, method: str, **params: object) -> None:
        """Tells the agent something that has no answer."""
        self._tell({"do": "notify", "method": method, "params": params})

    def decide(self, number: int, outcome: dict[str, str]) -> None:
        """Answers a question of the agent."""
        self._tell({"do": "decide", "number": number, "outcome": outcome})

    def new(self, cwd: str = "/somewhere") -> str:
        """The id of a new session."""
        return str(self.ask("session/new", cwd=cwd, mcpServers=[])["sessionId"])

    def say(self, session: str, text: str) -> Any:
        """The answer to a prompt of plain text."""
        return self.answer_to(self.begin_saying(session, text))

    def begin_saying(self, session: str, text: str) -> int:
        """Sends a prompt of plain text; its number."""
        return self.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def updates(self, session: str, *kinds: str) -> list[Event]:
        """What was told of a session so far, of these kinds or of all."""
        with self._changed:
            told = [one["params"] for one in self.events if one["is"] == "update"]
        return [
            one["update"]
            for one in told
            if one["sessionId"] == session and (not kinds or one["update"]["sessionUpdate"] in kinds)
        ]

    def said(self, session: str) -> str:
        """What the agent has said in a session so far."""
        chunks = self.updates(session, "agent_message_chunk")
        return "".join(one["content"].get("text", "") for one in chunks)

    def wait_for_update(self, session: str, kind: str) -> Event:
        """The first update of this kind in a session, once it was told."""

        def is_it(one: Event) -> bool:
            if one["is"] != "update" or one["params"]["sessionId"] != session:
                return False
            return bool(one["params"]["update"]["sessionUpdate"] == kind)

        found: Event = self.wait_for(is_it)["params"]["update"]
        return found

    def wait_for(self, is_it: Callable[[Event], bool]) -> Event:
        """The first event of this sort, once it was told."""
        until, looked_at = time.monotonic() + PATIENCE, 0
        with self._changed:
            while (found := next(filter(is_it, self.events[looked_at:]), None)) is None:
                looked_at = len(self.events)
                assert self._changed.wait(until - time.monotonic()), self._told()
            return found

    def kill_agent(self) -> None:
        """Ends the agent's process without a word, like a power cut."""
        os.kill(self.wait_for(lambda one: one["is"] == "started")["pid"], signal.SIGKILL)
        self.wait_for(lambda one: one["is"] == "ended")

    def close(self) -> None:
        """Hangs up; by then the agent has ended well by itself, and all that was on the wire was as described.

        After `kill_agent` there is only `abandon`.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0, self._told()
        self._reader.join(PATIENCE)
        endings = [(one["code"], one["signal"]) for one in self.events if one["is"] == "ended"]
        assert endings == [(0, None)], self._told()
        faults = [one for one in self.events if one["is"] == "fault"]
        assert faults == [], faults
        directions = {"sent": "to_agent", "heard": "to_client"}
        wire = [(directions[one["is"]], one["line"]) for one in self.events if one["is"] in directions]
        validate_wire(wire, exact=True)  # type: ignore[arg-type]

    def abandon(self) -> None:
        """Ends the editor whatever state it is in, and the agent with it: its input ends."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _tell(self, what: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()

    def _told(self) -> str:
        last = "\n".join(json.dumps(one)[:400] for one in self.events[-20:])
        return f"{last}\n{(self._folder / 'agent.log').read_text()[-4000:]}"


@contextmanager
def editing(folder: Path, agent: str = AGENT) -> Iterator[Editor]:
    """An editor that has greeted its agent. At the end it hangs up and is looked at, unless the test failed before."""
    editor = Editor(folder, agent).start()
    try:
        yield editor
        editor.close()
    finally:
        editor.abandon()
