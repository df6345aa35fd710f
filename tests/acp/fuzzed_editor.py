"""An editor that sends whatever comes to its mind and keeps account of what it is answered; and the agent behind it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from tests.acp.editor_world import Ear, GivenAgents, Opened, chosen
from tests.acp.fuzzed_requests import Known, damaged, drawn_request, hostile_meta, odd_value

from threadline.config.settings import Config
from threadline.editor import editing
from threadline.errors import InvalidRequest
from threadline.ports.agent import AgentError, AskPermission, Event, Text, Titled, ToolCall, ToolResult, Turn
from threadline.rpc.acp import METHODS
from threadline.store.facade import GatewayStore
from threadline.testing.agents import ScriptedAgent

Id: TypeAlias = int | str | None

# None of these is a message; each is answered with an error for nobody.
GARBAGE = (b"{", b"[]", b"3", b'"x"', b"\xff\xfe", b"null", b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]')
ANSWERS = ("allow", "reject", "cancelled", "unknown", "error", "damaged", "garbage", "twice", "never")
_PAUSE = 0.01
_FIRST_ID = 1000


class FuzzedAgent(ScriptedAgent):
    """Does what the words of a prompt name."""

    def __init__(self) -> None:
        super().__init__(_answer)

    async def check_model(self, name: str) -> str:
        """Any but one."""
        if name == "other":
            raise InvalidRequest("There is no such model.")
        return name


async def _answer(turn: Turn) -> AsyncIterator[Event]:
    for file in [file for spoken in turn.messages for file in spoken.attachments]:
        yield await turn.file(await turn.fetch(file), name=file.name, mime=file.mime)
    yield Text(f"You said {turn.text[:500]}. ")
    if "fail" in turn.text:
        raise AgentError("The agent has no wish to answer.")
    if "break" in turn.text:
        raise RuntimeError("broken on purpose")
    if "named" in turn.text:
        yield Titled("A name")
    if "tool" in turn.text:
        yield ToolCall("t", "read", '{"path": "/a"}')
        yield ToolResult("t", "nothing there")
    if "ask" in turn.text:
        call = ToolCall("a", "shell", '{"command": "ls"}', is_asked=True)
        asked = AskPermission(ask_id="a", tool="shell", arguments=call.arguments, call=call)
        allowed = turn.permitted(asked)
        if allowed is None:
            yield call
            yield asked
            return
        yield ToolResult("a", "done" if allowed else "not allowed", is_error=not allowed)
    while "slow" in turn.text or "endless" in turn.text:
        await asyncio.sleep(3600 if "endless" in turn.text else 4 * _PAUSE)
        yield Text("At last.")
        return


class PatientEar(Ear):
    """Hears nothing where nothing is written: on a pipe that is not noticed either."""

    def write(self, line: bytes) -> None:
        if line:
            super().write(line)


class FuzzedEditor(Opened):
    """Sends requests, valid and damaged, and answers questions in every way. `counts` tells what came of it."""

    def __init__(self, store: GatewayStore, chance: random.Random, counts: Counter[str]) -> None:
        super().__init__(store)
        self.ear = PatientEar(self._heard)
        self.known = Known()
        self.counts = counts
        # How often each id was asked for and answered; lines that are no message are asked under `None`.
        self.asked: Counter[Id] = Counter()
        self.answered: Counter[Id] = Counter()
        self.failures: list[dict[str, Any]] = []
        self._chance = chance
        self._number = _FIRST_ID
        self._sent: dict[Id, tuple[str, Any]] = {}
        self._cancelled_by: dict[Id, str] = {}
        # Sessions with a question that is never answered.
        self._left_asking: set[str] = set()

    @property
    def in_flight(self) -> dict[Id, tuple[str, Any]]:
        """The requests that wait for an answer, oldest first."""
        return {one: sent for one, sent in self._sent.items() if self.asked[one] > self.answered[one]}

    @property
    def open_prompts(self) -> dict[Id, str]:
        """The sessions that a prompt waits in, as far as the editor can know."""
        prompts = ((one, params) for one, (method, params) in self.in_flight.items() if method == "session/prompt")
        named = {one: params.get("sessionId") for one, params in prompts if isinstance(params, dict)}
        return {one: session for one, session in named.items() if isinstance(session, str)}

    @property
    def overdue(self) -> dict[Id, tuple[str, Any]]:
        """What should come to an answer by itself: not a prompt that nobody has cancelled, and that nothing else would end."""
        endless = {one for one, (_, params) in self.in_flight.items() if "endless" in str(params)}
        endless |= {one for one, session in self.open_prompts.items() if session in self._left_asking}
        return {one: sent for one, sent in self.in_flight.items() if one not in endless - self._cancelled_by.keys()}

    def step(self, chance: random.Random) -> None:
        """Sends one thing."""
        drawn = chance.random()
        self.known.busy = set(self.open_prompts.values())
        if drawn < 0.70:
            self.request(*drawn_request(chance, self.known))
        elif drawn < 0.78:
            self.cancel_session(chance)
        elif drawn < 0.86:
            self.cancel_request(chance)
        elif drawn < 0.90 and self.in_flight:
            # The same once more, while the first may still be answered.
            self._ask(*chance.choice(list(self.in_flight.items())))
        elif drawn < 0.94:
            self.asked[None] += 1
            self.mouth.say(chance.choice(GARBAGE))
        else:
            method, params = drawn_request(chance, self.known)
            self.tell_raw(chance.choice([method, "session/update", "_own/thing", ""]), params)

    def request(self, method: str, params: Any) -> Id:
        """Sends a request under an id of its own."""
        self._number += 1
        own: Id = self._number if self._number % 3 else f"r/{self._number}\u00e9"
        self._ask(own, (method, params))
        return own

    def cancel_session(self, chance: random.Random, session: str | None = None) -> None:
        """Cancels what runs in a session, mostly in one where something does."""
        waiting = list(self.open_prompts.values())
        if session is None:
            session = chance.choice(waiting) if waiting and chance.random() < 0.8 else self.known.session(chance)
            params = damaged(chance, {"sessionId": session})
        else:
            params = {"sessionId": session}
        if params == {"sessionId": session}:
            for one, place in self.open_prompts.items():
                if place == session:
                    self._cancelled_by.setdefault(one, "session/cancel")
        self.tell_raw("session/cancel", params)

    def cancel_request(self, chance: random.Random, request: Id = None) -> None:
        """Cancels a request, mostly one that waits."""
        if request is None:
            waiting = list(self.open_prompts) if chance.random() < 0.6 else list(self.in_flight)
            nobody: list[Id] = [1, _FIRST_ID, "r/0", 10**30]
            request = chance.choice(waiting if waiting and chance.random() < 0.8 else nobody)
            params = damaged(chance, {"requestId": request})
        else:
            params = {"requestId": request}
        if params == {"requestId": request}:
            self._cancelled_by.setdefault(request, "$/cancel_request")
        self.tell_raw("$/cancel_request", params)

    def tell_raw(self, method: str, params: Any) -> None:
        """Sends a notification with whatever params."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answered_all(self, seconds: float, *, but_endless: bool = False) -> None:
        """Returns when every request was answered, or with `but_endless` when nothing is overdue any more.

        What was not answered in time is an AssertionError.
        """

        def waiting() -> dict[Id, tuple[str, Any]]:
            return self.overdue if but_endless else self.in_flight

        try:
            async with asyncio.timeout(seconds):
                await self.until(lambda: not waiting() and self.answered[None] >= self.asked[None])
        except TimeoutError:
            named = [f"{one}: {method} {str(params)[:300]}" for one, (method, params) in waiting().items()]
            raise AssertionError("not answered: " + "; ".join(named)) from None

    def _ask(self, own: Id, sent: tuple[str, Any]) -> None:
        method, params = sent
        self.asked[own] += 1
        self._sent[own] = sent
        if isinstance(own, int | str) and method in METHODS:
            self._methods[own] = method  # type: ignore[index]
        self.send({"jsonrpc": "2.0", "id": own, "method": method, "params": params})

    def _heard(self, line: bytes) -> None:
        super()._heard(line)
        try:
            self._keep_account(self.heard[-1])
        except Exception as fault:  # noqa: BLE001 - the server must not be blamed for it, nor hide it
            self.faults.append(f"{fault!r}: {line[:500]!r}")

    def _keep_account(self, message: dict[str, Any]) -> None:
        if "method" in message:
            return
        own: Id = message["id"]
        if own is not None and own not in self._sent:
            # Not ours: a question's answer that was none, given back.
            return
        self.answered[own] += 1
        if own is None:
            self.counts["garbage refused"] += 1
            return
        method, params = self._sent[own]
        if "error" in message:
            self.failures.append(message["error"])
            self.counts[f"{method} refused"] += 1
            return
        self.counts[f"{method} done"] += 1
        self._count(own, method, params, message["result"])
        self.known.learn(method, params, message["result"])

    def _count(self, own: Id, method: str, params: Any, result: dict[str, Any]) -> None:
        if method == "session/prompt":
            reason = result["stopReason"]
            by = f" by {self._cancelled_by[own]}" if reason == "cancelled" and own in self._cancelled_by else ""
            self.counts[f"prompt: {reason}{by}"] += 1
        elif method == "session/list" and isinstance(params, dict) and params.get("cursor") in self.known.cursors:
            self.counts["list from a cursor"] += 1

    async def _decided(self, message: dict[str, Any]) -> None:
        """Answers a question in one of many ways, after a while or at once."""
        assert message["method"] == "session/request_permission"
        chance, params = self._chance, message["params"]
        # In turn, but not in the same order each time: there are fewer questions than prompts.
        kind = min(ANSWERS, key=lambda one: (self.counts[f"question: {one}"], chance.random()))
        self.counts[f"question: {kind}"] += 1
        if kind == "never":
            self._left_asking.add(params["sessionId"])
            return
        await asyncio.sleep(chance.choice([0, 0, _PAUSE]))
        for answer in self._said_to(kind, params):
            self.send({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _said_to(self, kind: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        chance = self._chance
        yes = {"outcome": chosen(params, "allow_once")}
        match kind:
            case "allow":
                return [{"result": {**yes, "_meta": hostile_meta(chance)}}]
            case "reject":
                return [{"result": {"outcome": chosen(params, "reject_once")}}]
            case "cancelled":
                return [{"result": {"outcome": {"outcome": "cancelled"}}}]
            case "unknown":
                return [{"result": {"outcome": {"outcome": "selected", "optionId": "made up"}}}]
            case "error":
                return [{"error": chance.choice([{"code": -32601, "message": "no"}, odd_value(chance)])}]
            case "damaged":
                return [{"result": damaged(chance, yes)}]
            case "garbage":
                return [chance.choice([{}, {"result": odd_value(chance)}, {"result": yes, "error": None}])]
        return [{"result": yes}, {"result": {"outcome": {"outcome": "cancelled"}}}]


@asynccontextmanager
async def fuzzed(location: str, chance: random.Random, counts: Counter[str]) -> AsyncIterator[FuzzedEditor]:
    """Such an editor on the database at `location`; what it was told is the protocol's, to the letter."""
    async with await GatewayStore.open(location) as store:
        editor = FuzzedEditor(store, chance, counts)
        agents = GivenAgents(FuzzedAgent())
        async with editing(Config(), store, editor.mouth, editor.ear, agents=agents) as (editor.server, editor.gateway):
            editor.request("initialize", {"protocolVersion": 1})
            await editor.answered_all(20)
            yield editor
            assert editor.faults == []
            editor.hang_up()
            await asyncio.wait_for(editor.gateway.wait_for_platforms(), 10)
