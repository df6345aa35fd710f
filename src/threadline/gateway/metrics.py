"""Counts of what a gateway has done since it started, and their text form for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from threadline.model.turn import TurnOutcome
from threadline.ports.platform import Verdict
from threadline.store.maintenance import QueueCounts

Number: TypeAlias = int | float
Labels: TypeAlias = tuple[tuple[str, str], ...]

# From an echo to an agent that works for half an hour, in seconds.
BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0)

_HELP: Final = {
    "messages_total": "What came in, by what became of it at the door.",
    "turns_total": "Turns that ended, by how.",
    "turns_recovered_total": "Turns whose lease had run out, by what became of them.",
    "turns_lost_total": "Turns that another gateway took from this one.",
    "deliveries_total": "Attempts to send, by how they ended.",
    "deliveries_recovered_total": "Deliveries whose lease had run out.",
    "config_reloads_total": "How often the configuration was read anew, by how that ended.",
}


class Family(msgspec.Struct, frozen=True):
    """What somebody else knows: one value for each set of labels. A gauge is what holds now, a counter what has happened."""

    name: str
    help: str
    values: Mapping[Labels, Number]
    kind: Literal["gauge", "counter"] = "gauge"


class Metrics:
    """Counts, one object a process. It only counts: it asks nobody, and nobody waits for it."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def message(self, platform: str, verdict: Verdict) -> None:
        """A message or another event came in."""
        self._count("messages_total", platform=platform, verdict=verdict)

    def turn_ended(self, outcome: TurnOutcome) -> None:
        """A turn is over, and stored."""
        self._count("turns_total", outcome=outcome)

    def turn_took(self, seconds: float) -> None:
        """An agent was at a turn for so long."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def turn_recovered(self, decision: str) -> None:
        """A turn was found whose lease had run out."""
        self._count("turns_recovered_total", decision=decision)

    def turn_lost(self) -> None:
        """A turn is another gateway's now."""
        self._count("turns_lost_total")

    def delivery(self, platform: str, result: str) -> None:
        """Something was sent, or not: `sent`, `unknown` (it may be there twice), `retried` or `parked`."""
        self._count("deliveries_total", platform=platform, result=result)

    def deliveries_recovered(self, count: int) -> None:
        """Deliveries were found whose lease had run out."""
        self._counts["deliveries_recovered_total", ()] += count

    def reloaded(self, result: str) -> None:
        """The configuration was read anew: `changed` or `refused`."""
        self._count("config_reloads_total", result=result)

    def counted(self, name: str, **labels: str) -> int:
        """How often something happened, over all labels that are not named."""
        wanted = set(labels.items())
        return sum(count for (known, at), count in self._counts.items() if known == name and wanted <= set(at))

    def text(self, others: Iterable[Family] = ()) -> str:
        """Everything in the text format that Prometheus reads."""
        lines: list[str] = []
        for name, explained in _HELP.items():
            counts: dict[Labels, Number] = {} if name in _LABELLED else {(): 0}
            counts |= {labels: count for (known, labels), count in self._counts.items() if known == name}
            lines += _family(name, "counter", explained, counts)
        lines += self._histogram()
        for family in others:
            lines += _family(family.name, family.kind, family.help, family.values)
        return "\n".join(lines) + "\n"

    def _count(self, name: str, **labels: str) -> None:
        self._counts[name, tuple(labels.items())] += 1

    def _histogram(self) -> Iterator[str]:
        name = "threadline_turn_seconds"
        yield f"# HELP {name} How long agents were at a turn."
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*BUCKETS, float("inf")), self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{_number(bound)}"}} {total}'
        yield f"{name}_sum {_number(self._seconds)}"
        yield f"{name}_count {total}"


# Those of which nothing is said before something happened: nobody knows their labels yet.
_LABELLED: Final = (
    "messages_total",
    "turns_total",
    "turns_recovered_total",
    "deliveries_total",
    "config_reloads_total",
)


def families_of(
    load: QueueCounts,
    *,
    alarms: int,
    unavailable: int,
    connected: Mapping[tuple[str, str], bool],
    listening: Mapping[tuple[str, str], bool],
) -> list[Family]:
    """What is known beside the counts: how much there is to do on the whole database, and who is connected here."""
    return [
        Family("turns_running", "Turns that run, over all gateways of the database.", {(): load.running_turns}),
        Family("messages_waiting", "Accepted messages that wait for their turn.", {(): load.waiting_messages}),
        Family("deliveries_pending", "What is to be sent.", {(): load.waiting_deliveries}),
        Family("deliveries_parked", "What could not be sent and was put aside.", {(): load.parked_deliveries}),
        Family("alarms_open", "What fails until its owner mends it.", {(): alarms}),
        Family("platform_connected", "Whether a platform of this gateway is connected.", _places(connected)),
        Family(
            "platform_listening",
            "Whether messages come in here: of some platforms one gateway hears.",
            _places(listening),
        ),
        Family("store_unavailable_total", "How often the store did not answer.", {(): unavailable}, "counter"),
    ]


def _places(states: Mapping[tuple[str, str], bool]) -> dict[Labels, Number]:
    return {(("platform", name), ("account", account)): int(is_so) for (name, account), is_so in states.items()}


def _family(name: str, kind: str, explained: str, values: Mapping[Labels, Number]) -> Iterator[str]:
    yield f"# HELP threadline_{name} {explained}"
    yield f"# TYPE threadline_{name} {kind}"
    for labels, value in sorted(values.items()):
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"threadline_{name}{f'{{{inner}}}' if inner else ''} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: Number) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
