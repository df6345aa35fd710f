"""What must hold however often gateways died: every message has one fate, every answer stands once, in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
from tests.system.outside import CALL, FOUND, LOOKS, OutsideAgent, answer_to, kind_of

from threadline.model.message import Message
from threadline.model.turn import PARKED_AFTER
from threadline.testing.scripted import ChatMessage, ScriptedChat
from threadline.texts import gateway as gateway_texts


class Rows(Protocol):
    """Reads the database behind the store's back."""

    def __call__(self, text: str, /) -> list[tuple[Any, ...]]: ...


class Said(msgspec.Struct, frozen=True):
    """A message of somebody, in their direct chat."""

    user: str
    text: str
    key: str


class TakenTurn(msgspec.Struct, kw_only=True):
    """A turn as the database has it, with what it answered."""

    pk: int
    turn_id: str
    outcome: str | None
    attempts: int
    said: list[Said]
    fates: list[str | None]

    @property
    def user(self) -> str:
        return self.said[0].user


class Delivered(msgspec.Struct, frozen=True):
    """What became of an answer."""

    delivery_id: str
    state: str
    text: str


class Promises:
    """Compares what people said with what the database has, what the agent was asked and what the chat shows."""

    def __init__(
        self, said: Sequence[Said], chat: ScriptedChat, agent: OutsideAgent, rows: Rows, *, kills: int
    ) -> None:
        self._said = said
        self._chat = chat
        self._agent = agent
        self._rows = rows
        self._kills = kills
        self.turns = self._taken()

    def broken(self, users: Sequence[str]) -> list[str]:
        """All that is not as promised, for these people and in general; empty where everything is."""
        found = list(self._broken_fates())
        for user in users:
            turns = [turn for turn in self.turns if turn.user == user]
            found += self._broken_runs(user, turns)
            answers = self._answers(user, turns)
            found += self._broken_transcript(user, turns, answers)
            found += self._broken_chat(user, turns, answers)
            # To each chat one message is sent at a time, so that a kill leaves one in doubt at most; there are many chats.
            if (doubts := self.in_doubt(user)) > self._kills:
                found.append(f"{user}: {doubts} sends in doubt, more than {self._kills} kills explain")
        return found

    def in_doubt(self, *users: str) -> int:
        """How many answers to these people may be there twice."""
        unknown = {pk for (pk,) in self._rows("SELECT turn_pk FROM deliveries WHERE state = 'unknown'")}
        return sum(turn.pk in unknown for turn in self.turns if turn.user in users)

    def _taken(self) -> list[TakenTurn]:
        by_key = {said.key: said for said in self._said}
        taken: dict[int, TakenTurn] = {}
        for pk, turn_id, outcome, attempts, key, fate in self._rows(
            "SELECT t.pk, t.turn_id, t.outcome, t.attempts, i.dedupe_key, i.fate FROM turns t"
            " JOIN inbox i ON i.turn_pk = t.pk ORDER BY t.pk, i.pk"
        ):
            new = TakenTurn(pk=pk, turn_id=turn_id, outcome=outcome, attempts=attempts, said=[], fates=[])
            turn = taken.setdefault(pk, new)
            turn.said.append(by_key[key])
            turn.fates.append(fate)
        return list(taken.values())

    def _broken_fates(self) -> Iterator[str]:
        kept = Counter(key for (key,) in self._rows("SELECT dedupe_key FROM inbox"))
        said = Counter(said.key for said in self._said)
        if kept != said:
            yield f"said and not kept once: {said - kept}, kept and not said: {kept - said}"
        for turn in self.turns:
            fate = turn.outcome if turn.outcome in ("answered", "interrupted", "parked") else None
            before = "merged" if fate == "answered" else fate
            if fate is None or turn.fates != [before] * (len(turn.fates) - 1) + [fate]:
                yield f"turn {turn.pk} ended as {turn.outcome}, its messages as {turn.fates}"
            if turn.outcome == "parked" and turn.attempts < PARKED_AFTER:
                yield f"turn {turn.pk} was parked after {turn.attempts} attempts"
        for left in ("SELECT * FROM journal", "SELECT * FROM ready", "SELECT * FROM turns WHERE state <> 'done'"):
            if rows := self._rows(left):
                yield f"{left}: {rows}"

    def _broken_runs(self, user: str, turns: Sequence[TakenTurn]) -> Iterator[str]:
        """How often the agent was asked is the agent's to say: it was there all the time."""
        for turn in turns:
            kind, runs = kind_of(user), self._agent.runs[turn.turn_id]
            tool_runs = self._agent.tool_runs[turn.turn_id]
            if runs > (1 if kind == "never" else turn.attempts) or (not runs and turn.outcome == "answered"):
                yield f"{user}: turn {turn.pk} ({kind}) ran {runs} times in {turn.attempts} attempts"
            # One that has called its tool never runs again, so the answer tells whether it did.
            if tool_runs > (kind == "tools") or (turn.outcome == "answered" and tool_runs < (kind == "tools")):
                yield f"{user}: turn {turn.pk} ({kind}) ran its tool {tool_runs} times"

    def _answers(self, user: str, turns: Sequence[TakenTurn]) -> list[list[Message]]:
        """What the transcript has behind the words of each turn."""
        left = self._transcript(user)
        answers: list[list[Message]] = []
        for turn in turns:
            left, answer = left[len(turn.said) :], []
            while left and left[0]["role"] != "user":
                answer.append(left.pop(0))
            answers.append(answer)
        return answers

    def _owner(self, user: str) -> str:
        return f"scripted:{user}"

    def _transcript(self, user: str) -> list[Message]:
        bodies = self._rows(
            "SELECT m.body FROM messages m JOIN session_state t ON m.number >> 24 = t.session_pk"
            f" WHERE t.owner = '{self._owner(user)}' ORDER BY m.number"
        )
        return [msgspec.json.decode(body) for (body,) in bodies]

    def _broken_transcript(
        self, user: str, turns: Sequence[TakenTurn], answers: Sequence[Sequence[Message]]
    ) -> Iterator[str]:
        expected = [said.text for said in self._said if said.user == user]
        if [said.text for turn in turns for said in turn.said] != expected:
            yield f"{user}: not answered in the order in which it was said: {turns}"
        told = [str(m["content"]) for m in self._transcript(user) if m["role"] == "user"]
        if told != expected:
            yield f"{user}: said {expected}, the transcript has {told}"
        for turn, answer in zip(turns, answers, strict=True):
            if fault := _fault_of_answer(turn, answer):
                yield f"{user}: turn {turn.pk}: {fault}: {answer}"

    def _broken_chat(
        self, user: str, turns: Sequence[TakenTurn], answers: Sequence[Sequence[Message]]
    ) -> Iterator[str]:
        messages = self._chat.messages(f"dm-{user}")
        shown: dict[str, list[ChatMessage]] = defaultdict(list)
        for message in messages:
            shown[message.key].append(message)
        expected = self._deliveries(turns, answers)
        for delivered in expected:
            if fault := _fault_of_shown(delivered, shown[delivered.delivery_id]):
                texts = [message.text for message in shown[delivered.delivery_id]]
                yield f"{user}: {delivered.delivery_id} is {delivered.state}: {fault}: {texts}"
        # In the order of what came last of each: a repetition stands for the message.
        order = list(dict.fromkeys(message.key for message in reversed(messages)))[::-1]
        if order != [delivered.delivery_id for delivered in expected]:
            yield f"{user}: shown as {order}, answered as {expected}"

    def _deliveries(self, turns: Sequence[TakenTurn], answers: Sequence[Sequence[Message]]) -> list[Delivered]:
        by_turn: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for pk, delivery_id, state in self._rows("SELECT turn_pk, delivery_id, state FROM deliveries ORDER BY pk"):
            by_turn[pk].append((delivery_id, state))
        return [
            Delivered(delivery_id, state, shown_text(turn, answer))
            for turn, answer in zip(turns, answers, strict=True)
            for delivery_id, state in by_turn[turn.pk]
        ]


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


def shown_text(turn: TakenTurn, answer: Sequence[Message]) -> str:
    """What the chat is to show of a turn with this answer."""
    texts = [str(message["content"]) for message in answer if message["role"] == "assistant" and message["content"]]
    notice = {"interrupted": gateway_texts.BROKEN_OFF, "parked": gateway_texts.PARKED}.get(turn.outcome or "")
    return "\n\n".join([*texts, *([notice] if notice else [])])


def _fault_of_answer(turn: TakenTurn, answer: Sequence[Message]) -> str | None:
    whole = whole_answer(turn)
    if turn.outcome == "answered":
        return None if list(answer) == whole else f"the answer should be {whole}"
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
        return bool(said["content"] == gateway_texts.TOOL_UNKNOWN)
    return str(meant["content"]).startswith(str(said["content"]))


def _fault_of_shown(delivered: Delivered, shown: Sequence[ChatMessage]) -> str | None:
    texts = [message.text for message in shown]
    if delivered.state == "sent":
        return None if texts == [delivered.text] else f"it should be there once, as {delivered.text!r}"
    if delivered.state != "unknown":
        return "it did not arrive"
    marked = gateway_texts.MAY_BE_REPEATED.format(text=delivered.text)
    if not texts or texts[-1] != marked:
        return f"it should say {marked!r}"
    return "repeated without a mark" if sum(text != marked for text in texts) > 1 else None
