"""Gateways in processes that are killed, the chat that outlives them, and what must hold in the end."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, Self

import apsw
import msgspec
import psycopg
from psycopg import sql
from tests.system.gateway_child import CALL, FOUND, LOOKS, Child, answer_to, kind_of, start

from threadline.model import words_gateway as words
from threadline.model.message import Message
from threadline.testing.scripted import ChatMessage, ScriptedChat

_SETTLING_SECONDS = 40.0


class Said(msgspec.Struct, frozen=True):
    """A message of somebody, in their direct chat."""

    user: str
    text: str
    key: str


class TakenTurn(msgspec.Struct, kw_only=True):
    """A turn as the database has it, with what it answered."""

    pk: int
    outcome: str | None
    attempts: int
    said: list[Said]
    fates: list[str | None]

    @property
    def user(self) -> str:
        return self.said[0].user


class Rows(Protocol):
    """Reads the database behind the store's back."""

    def __call__(self, text: str, /) -> list[tuple[Any, ...]]: ...


@contextmanager
def reading(location: str) -> Iterator[Rows]:
    """Queries of the database at `location`."""
    if location.startswith("sqlite"):
        connection = apsw.Connection(location.removeprefix("sqlite://"))
        connection.set_busy_timeout(10_000)
        try:
            yield lambda text: connection.execute(text).fetchall()
        finally:
            connection.close()
        return
    with psycopg.connect(location, autocommit=True, options="-c search_path=threadline") as server:
        yield lambda text: server.execute(text.encode()).fetchall()


@contextmanager
def more_databases(location: str) -> Iterator[Callable[[], str]]:
    """Makes databases beside a fresh one: as many as tests at the same time need."""
    made: list[str] = []
    if location.startswith("sqlite"):
        folder = Path(location.removeprefix("sqlite://")).parent

        def beside() -> str:
            made.append(f"{folder}/{len(made)}/threadline.db")
            return f"sqlite://{made[-1]}"

        yield beside
        return
    with psycopg.connect(location, dbname="postgres", autocommit=True) as server:

        def copied() -> str:
            made.append(f"beside{len(made)}")
            server.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE tests STRATEGY FILE_COPY").format(sql.Identifier(made[-1]))
            )
            return location.replace("/tests", f"/{made[-1]}")

        yield copied
        for name in made:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class World:
    """A chat, a database, and gateways that come and go."""

    def __init__(self, location: str, chat: ScriptedChat, *, lease: float | None = None) -> None:
        """Where a gateway knows that it is alone it never waits for a lease, so there it is long."""
        is_alone = location.startswith("sqlite")
        self.chat = chat
        self.said: list[Said] = []
        self.kills = 0
        self._child = Child(
            location=location, address=chat.address, lease=lease or (60.0 if is_alone else 1.5), is_alone=is_alone
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @functools.cached_property
    def rows(self) -> Rows:
        """Reads the database, which is there once a gateway was."""
        return self._open.enter_context(reading(self._child.location))

    def begin(self, point: str | None = None, **how: Any) -> BaseProcess:
        """Starts a gateway, which dies at `point` if there is one. `how` sets other fields of `Child`."""
        process = start(msgspec.structs.replace(self._child, point=point, **how))
        self._open.callback(process.kill)
        return process

    def say(self, user: str, text: str) -> None:
        """Somebody writes to us."""
        number = self.chat.say(text, user=user)
        self.said.append(Said(user, text, f"dm-{user}/{number}"))

    async def kill(self, process: BaseProcess) -> None:
        """Ends a gateway as the kernel does when memory is short."""
        process.kill()
        await self.died(process)

    async def died(self, process: BaseProcess) -> None:
        """Waits for a gateway's death, which must be a violent one."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), _SETTLING_SECONDS)
        finally:
            loop.remove_reader(process.sentinel)
        process.join()
        assert process.exitcode == -signal.SIGKILL, process.exitcode
        self.kills += 1

    async def connected(self, count: int = 1) -> None:
        """Waits until so many gateways are there."""
        await self.chat.wait_for(lambda: self.chat.connected >= count, timeout=_SETTLING_SECONDS)

    def running(self, owner: str) -> int:
        """How many turns a gateway holds."""
        return len(self.rows(f"SELECT 1 FROM turns WHERE state = 'running' AND owner = '{owner}'"))

    async def settled(self) -> None:
        """Waits until nothing waits, runs or is to be sent any more."""
        try:
            await self.chat.wait_for(self._is_settled, timeout=_SETTLING_SECONDS)
        except TimeoutError as cause:
            inbox = self.rows("SELECT pk, dedupe_key, turn_pk, fate FROM inbox WHERE fate IS NULL")
            turns = self.rows(
                "SELECT pk, state, outcome, attempts, owner, lease_until FROM turns WHERE state <> 'done'"
            )
            out = self.rows(
                "SELECT pk, delivery_id, state, error FROM deliveries WHERE state NOT IN ('sent', 'unknown')"
            )
            ready = self.rows("SELECT * FROM ready")
            raise AssertionError(f"never settled: {inbox=} {ready=} {turns=} {out=}; {self.chat.portrait()}") from cause

    def _is_settled(self) -> bool:
        if self.chat.unacknowledged or not self.said:
            return False
        ((fated,),) = self.rows("SELECT COUNT(*) FROM inbox WHERE fate IS NOT NULL")
        if fated < len(self.said):
            return False
        return not self.rows("SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending', 'open') LIMIT 1")

    @property
    def doubtful(self) -> int:
        """How many deliveries may be repetitions."""
        return len(self.rows("SELECT 1 FROM deliveries WHERE state = 'unknown'"))

    # What must hold in the end.

    def faults(self) -> list[str]:
        """All that is not as promised; empty where everything is."""
        return self.faults_of(list(dict.fromkeys(said.user for said in self.said)))

    def faults_of(self, users: Sequence[str]) -> list[str]:
        """What is not as promised for these people, and in general."""
        found = list(self._faults_of_fates())
        for user in users:
            turns = [turn for turn in self.turns() if turn.user == user]
            answers = list(self._transcript_faults(user, turns, found))
            found += self._chat_faults(user, turns, answers)
        return found

    def turns(self) -> list[TakenTurn]:
        """All turns, oldest first."""
        by_key = {said.key: said for said in self.said}
        taken: dict[int, TakenTurn] = {}
        for pk, outcome, attempts, key, fate in self.rows(
            "SELECT t.pk, t.outcome, t.attempts, i.dedupe_key, i.fate FROM turns t JOIN inbox i ON i.turn_pk = t.pk"
            " ORDER BY t.pk, i.pk"
        ):
            turn = taken.setdefault(pk, TakenTurn(pk=pk, outcome=outcome, attempts=attempts, said=[], fates=[]))
            turn.said.append(by_key[key])
            turn.fates.append(fate)
        return list(taken.values())

    def _faults_of_fates(self) -> Iterator[str]:
        kept = Counter(key for (key,) in self.rows("SELECT dedupe_key FROM inbox"))
        said = Counter(said.key for said in self.said)
        if kept != said:
            yield f"said and not kept once: {said - kept}, kept and not said: {kept - said}"
        expected = {"answered": "answered", "interrupted": "interrupted", "parked": "parked"}
        for turn in self.turns():
            fate = expected.get(turn.outcome or "")
            before = "merged" if fate == "answered" else fate
            if fate is None or turn.fates != [before] * (len(turn.fates) - 1) + [fate]:
                yield f"turn {turn.pk} ended as {turn.outcome}, its messages as {turn.fates}"
            if turn.outcome == "parked" and turn.attempts != 3:
                yield f"turn {turn.pk} was parked after {turn.attempts} attempts"
        for table in ("journal", "ready"):
            if left := self.rows(f"SELECT * FROM {table}"):
                yield f"{table} is left with {left}"
        if odd := self.rows("SELECT pk, state FROM turns WHERE state <> 'done'"):
            yield f"turns that did not end: {odd}"

    def transcript(self, user: str) -> list[Message]:
        """What the conversation with somebody has, to the letter and in order."""
        bodies = self.rows(
            "SELECT m.body FROM messages m JOIN session_state t ON m.number >> 24 = t.session_pk"
            f" WHERE t.owner = 'scripted:{user}' ORDER BY m.number"
        )
        return [msgspec.json.decode(body) for (body,) in bodies]

    def _transcript_faults(self, user: str, turns: list[TakenTurn], found: list[str]) -> Iterator[list[Message]]:
        """The answer of each turn; what is wrong with the transcript goes to `found`."""
        left = self.transcript(user)
        for turn in turns:
            texts = [said.text for said in turn.said]
            asked, left = left[: len(texts)], left[len(texts) :]
            if [(m["role"], m["content"]) for m in asked] != [("user", text) for text in texts]:
                found.append(f"{user}: turn {turn.pk} answered {texts}, the transcript has {asked}")
            answer = []
            while left and left[0]["role"] != "user":
                answer.append(left.pop(0))
            if fault := answer_fault(turn, answer):
                found.append(f"{user}: turn {turn.pk}: {fault}: {answer}")
            yield answer
        if left:
            found.append(f"{user}: of no turn: {left}")
        if [said.text for said in self.said if said.user == user] != [
            said.text for turn in turns for said in turn.said
        ]:
            found.append(f"{user}: not in the order in which it was said: {turns}")

    def _chat_faults(self, user: str, turns: list[TakenTurn], answers: list[list[Message]]) -> Iterator[str]:
        shown: dict[str, list[ChatMessage]] = defaultdict(list)
        for message in self.chat.messages(f"dm-{user}"):
            shown[message.key].append(message)
        deliveries: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for pk, delivery, state in self.rows("SELECT turn_pk, delivery_id, state FROM deliveries ORDER BY pk"):
            deliveries[pk].append((delivery, state))
        expected = [
            (*told, turn, answer) for turn, answer in zip(turns, answers, strict=True) for told in deliveries[turn.pk]
        ]
        for delivery, state, turn, answer in expected:
            if fault := shown_fault(state, shown_text(turn, answer), shown[delivery]):
                yield f"{user}: {delivery} is {state}: {fault}: {[m.text for m in shown[delivery]]}"
        # In the order of what came last of each: a repetition counts as the message.
        order = list(dict.fromkeys(message.key for message in reversed(self.chat.messages(f"dm-{user}"))))[::-1]
        if order != [delivery for delivery, *_ in expected]:
            yield f"{user}: shown as {order}, answered as {expected}"
        unknown = [delivery for delivery, state, *_ in expected if state == "unknown"]
        if len(unknown) > self.kills:
            yield f"{user}: {len(unknown)} doubtful deliveries after {self.kills} kills"


def answer_fault(turn: TakenTurn, answer: list[Message]) -> str | None:
    """What is wrong with a turn's answer in the transcript."""
    whole = whole_answer(turn)
    if turn.outcome == "answered":
        return None if answer == whole else f"the answer should be {whole}"
    if turn.outcome == "parked":
        return "a turn that was given up has an answer" if answer else None
    if not answer:
        return None
    if answer[-1].get("interrupted") is not True:
        return "nothing says that it broke off"
    for place, (said, meant) in enumerate(zip(answer, whole, strict=False)):
        is_last = place == len(answer) - 1
        fits = said["content"] == meant["content"] or (is_last and _is_cut(said, meant))
        if not fits or said.get("tool_calls") != meant.get("tool_calls"):
            return f"not the beginning of {whole}"
    return "a call without its result" if answer[-1].get("tool_calls") else None


def _is_cut(said: Message, meant: Message) -> bool:
    if said["role"] == "tool":
        return bool(said["content"] == words.TOOL_UNKNOWN)
    return str(meant["content"]).startswith(str(said["content"]))


def whole_answer(turn: TakenTurn) -> list[Message]:
    """What the agent says where nothing happens to it."""
    answer: Message = {"role": "assistant", "content": answer_to([said.text for said in turn.said])}
    if kind_of(turn.user) != "tools":
        return [answer]
    function = {"name": CALL.name, "arguments": CALL.arguments}
    call = {"id": CALL.call_id, "type": "function", "function": function}
    looks: Message = {"role": "assistant", "content": LOOKS, "tool_calls": [call]}
    found: Message = {"role": "tool", "tool_call_id": CALL.call_id, "tool_name": CALL.name, "content": FOUND}
    return [looks, found, answer]


def shown_text(turn: TakenTurn, answer: list[Message]) -> str:
    """What the chat shows of a turn."""
    texts = [str(message["content"]) for message in answer if message["role"] == "assistant" and message["content"]]
    notice = {"interrupted": words.BROKEN_OFF, "parked": words.PARKED}.get(turn.outcome or "")
    return "\n\n".join([*texts, *([notice] if notice else [])])


def shown_fault(state: str, text: str, shown: list[ChatMessage]) -> str | None:
    """What is wrong with the messages that a delivery left in the chat."""
    if state == "sent":
        return None if [m.text for m in shown] == [text] else f"it should be there once, as {text!r}"
    if state != "unknown":
        return "it did not arrive"
    marked = words.MAY_BE_REPEATED.format(text=text)
    if not shown or shown[-1].text != marked:
        return f"it should say {marked!r}"
    return "repeated without a mark" if sum(m.text != marked for m in shown) > 1 else None
