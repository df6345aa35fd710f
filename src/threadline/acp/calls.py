"""What an editor calls the calls of a session. Pure.

The protocol wants an id that no other call of the session has. Agents need not keep to that: many begin anew with every turn.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from threadline.ports.agent import AskPermission, Event, ToolCall, ToolResult


class Names:
    """Gives each call of a session a name that no other has: the agent's own to the first, its number with it to the next ones.

    Counted along the conversation a call has the same name each time that all is told, and the one that it had when it ran.
    """

    def __init__(self, *, mark: str = "", avoid: Container[str] = ()) -> None:
        """`mark` stands in each name, where nobody knows which were given before. `avoid`: names that others have."""
        self._mark = f"~{mark}" if mark else ""
        self._avoid = avoid
        self._counts: dict[str, int] = {}
        self.given: set[str] = set()

    def give(self, call_id: str) -> str:
        """A name for a call that begins."""
        count = self._counts.get(call_id, 0) + 1
        while (name := self._name(call_id, count)) in self.given or name in self._avoid:
            count += 1
        self._counts[call_id] = count
        self.given.add(name)
        return name

    def _name(self, call_id: str, count: int) -> str:
        return f"{call_id}{self._mark}" if count == 1 else f"{call_id}{self._mark}~{count}"


class Calls:
    """Which call an id stands for, along a turn or a transcript: the last that began with it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        # Those that have given nothing back, by the ids of their agent.
        self.open: dict[str, str] = {}
        # The names that it gave, in their order.
        self.given: list[str] = []

    def start(self, call_id: str, names: Names) -> str:
        """The name of a call that begins; of one that runs, and is told again, the same."""
        if call_id not in self.open:
            self._give(call_id, names)
        name = self.open[call_id] = self._names[call_id]
        return name

    def end(self, call_id: str) -> str | None:
        """The name of a call that has given something back; `None`: it never began."""
        self.open.pop(call_id, None)
        return self._names.get(call_id)

    def named(self, event: Event, names: Names, turn_id: str) -> Event:
        """The event with the names that its calls have for the editor."""
        match event:
            case ToolCall(call_id=call_id):
                return _called(event, self.start(call_id, names))
            case ToolResult(call_id=call_id):
                name = self.end(call_id) or self._give(call_id, names)
                return event if name == call_id else msgspec.structs.replace(event, call_id=name)
            case AskPermission(call=None):
                # No call's: an agent may use the same id for both. It is told once, so that it need not be found again.
                return msgspec.structs.replace(event, ask_id=names.give(f"ask~{turn_id}~{event.ask_id}"))
            case AskPermission(call=ToolCall() as call):
                return msgspec.structs.replace(event, call=_called(call, self.start(call.call_id, names)))
        return event

    def _give(self, call_id: str, names: Names) -> str:
        name = self._names[call_id] = names.give(call_id)
        self.given.append(name)
        return name


def _called(call: ToolCall, name: str) -> ToolCall:
    return call if name == call.call_id else msgspec.structs.replace(call, call_id=name)
