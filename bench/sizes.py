"""How much of the disk a text takes."""

from __future__ import annotations

from collections.abc import Iterator

from bench import prepare
from bench.measure import Figure, Sample
from bench.stage import Stage

_BARS = {"sqlite": 2.5, "postgres": 4.5}


def size(stage: Stage) -> Iterator[Sample]:
    """The store with the whole corpus, its index level, never vacuumed by us."""
    url = prepare.library(stage)
    figure = Figure(name="database size", unit="bytes", beside="text stored", at_most=_BARS[stage.engine])
    yield Sample(figure, float(stage.places.size(url)), float(stage.corpus.text_bytes))
