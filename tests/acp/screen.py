"""What an editor has on its screen of a session: its turns, each with what was asked, said and done, as updates make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Update: TypeAlias = dict[str, Any]

_ENDED = ("completed", "failed")
_NO_PART = {"available_commands_update", "session_info_update", "config_option_update", "current_mode_update"}


class Turn:
    """One prompt with its answer. `items` stand in their order; what neighbours say in the same voice is one item.

    A tool call has the place where it was first told, and in `calls` the state that its updates have brought it to. Of plans
    there is the last: it replaces those before.
    """

    def __init__(self, asked: Sequence[Any]) -> None:
        self.asked = list(asked)
        self.items: list[tuple[str, Any]] = []
        self.calls: dict[str, Update] = {}
        self.plan: Any = None

    def take(self, update: Update) -> None:
        """One update more."""
        match update["sessionUpdate"]:
            case "user_message_chunk":
                self.asked.append(update["content"])
            case "agent_message_chunk" | "agent_thought_chunk" as voice:
                self._hear(voice, update["content"])
            case "tool_call":
                assert update["toolCallId"] not in self.calls, f"told twice: {update}"
                self.items.append(("call", update["toolCallId"]))
                self.calls[update["toolCallId"]] = update
            case "tool_call_update" if _ends_question(update) and update["toolCallId"] not in self.calls:
                # It stood on a card of its own, which came with the question and is no part of what was said.
                return
            case "tool_call_update":
                call = self.calls[update["toolCallId"]]
                self.calls[update["toolCallId"]] = {**call, **update, "sessionUpdate": "tool_call"}
            case "plan":
                self.plan = update["entries"]
            case other:
                raise AssertionError(f"nobody expected {other}: {update}")

    def covers(self, seen: Turn) -> bool:
        """Whether all that was seen of it is here, as it was; more may follow, also in the last that was being said."""
        return (
            self.asked == seen.asked
            and self._follows(seen.items)
            and all(_goes_on(self.calls[name], call) for name, call in seen.calls.items())
            and (seen.plan in (None, self.plan) or (self.plan is not None and len(self.items) > len(seen.items)))
        )

    def _follows(self, seen: list[tuple[str, Any]]) -> bool:
        if not seen:
            return True
        here = self.items[: len(seen)]
        (kind, last), (seen_kind, seen_last) = here[-1] if here else ("", None), seen[-1]
        grows = isinstance(last, str) and isinstance(seen_last, str) and kind != "call" and last.startswith(seen_last)
        return here[:-1] == seen[:-1] and kind == seen_kind and (last == seen_last or grows)

    def _hear(self, voice: str, content: Any) -> None:
        if content["type"] != "text":
            self.items.append((voice, content))
        elif self.items and self.items[-1][0] == voice and isinstance(self.items[-1][1], str):
            self.items[-1] = (voice, self.items[-1][1] + content["text"])
        else:
            self.items.append((voice, content["text"]))


def _ends_question(update: Update) -> bool:
    return update.keys() == {"sessionUpdate", "toolCallId", "status"} and update["status"] in _ENDED


def turns_of(updates: Iterable[Update]) -> list[list[Update]]:
    """The updates of a replay, turn by turn. A person's words begin one; a picture goes with the words before it."""
    turns: list[list[Update]] = []
    for update in updates:
        if update["sessionUpdate"] in _NO_PART:
            continue
        if update["sessionUpdate"] == "user_message_chunk" and update["content"]["type"] == "text":
            turns.append([])
        assert turns, f"before anybody had asked: {update}"
        turns[-1].append(update)
    return turns


def parts(updates: Iterable[Update]) -> list[Update]:
    """Those of the updates that tell of a turn."""
    return [update for update in updates if update["sessionUpdate"] not in _NO_PART]


def screen(updates: Iterable[Update], asked: Sequence[Any] = ()) -> Turn:
    """A turn as these updates show it; `asked` is what the editor itself has shown of it."""
    turn = Turn(asked)
    for update in updates:
        turn.take(update)
    return turn


def _goes_on(call: Update, seen: Update) -> bool:
    """Whether a call is the one that was seen, in that state or, where it had not ended, a later one."""
    if seen.get("status") in _ENDED:
        return call == seen
    changing = ("status", "content")
    return {**call, **dict.fromkeys(changing)} == {**seen, **dict.fromkeys(changing)}
