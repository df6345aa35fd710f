"""Search against the bare full-text query on the same index, and for one person among many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench import prepare
from bench.corpus import Corpus
from bench.measure import Figure, Sample, interleave
from bench.stage import Stage

VIEWER = Figure(
    name="search a common word, viewer with 10 sessions among 100,000",
    unit="microseconds",
    beside="the same viewer in a store of 10",
    at_most=3.0,
)
_LIMIT = 20
_FORGIVEN = {"sqlite": 1_000.0, "postgres": 2_000.0}


def search(stage: Stage) -> Iterator[Sample]:
    """Five kinds of question to the whole corpus."""
    url = prepare.library(stage)
    words = stage.places.words(url)
    with stage.store(url, check=stage.is_last) as store:
        for kind, query in questions(stage.corpus).items():
            figure = Figure(
                name=f"search, {kind}",
                unit="microseconds",
                beside="raw full-text query, same limit",
                at_most=3.0,
                or_within=_FORGIVEN[stage.engine],
            )
            found = store.search(query, limit=_LIMIT)
            assert len(found), f"{query!r} is in the corpus"
            assert not found.unindexed
            floor, work = interleave(
                lambda query=query: words.search(query, _LIMIT),  # type: ignore[misc]
                lambda query=query: store.search(query, limit=_LIMIT),  # type: ignore[misc]
                times=stage.scaled(60, least=10),
            )
            yield Sample(figure, work, floor)
    words.close()


def search_viewer(stage: Stage) -> Iterator[Sample]:
    """A word that almost every message holds, asked by one person among ten thousand."""
    (many_url, many), (few_url, few) = prepare.wide(stage), prepare.narrow(stage)
    word = stage.corpus.commonest_word
    with stage.store(many_url, check=False) as wide, stage.store(few_url, check=False) as narrow:
        first, other = wide.search(word, viewer=many.source(0)), narrow.search(word, viewer=few.source(0))
        assert len(first) == len(other)
        assert not first.unindexed + other.unindexed, "both indexes are level"
        floor, work = interleave(
            lambda: narrow.search(word, viewer=few.source(0)),
            lambda: wide.search(word, viewer=many.source(0)),
            times=stage.scaled(100, least=10),
        )
        yield Sample(VIEWER, work, floor)


def questions(corpus: Corpus) -> dict[str, str]:
    """A query of each kind, chosen by how often its words stand in the corpus."""
    counted = corpus.frequencies
    middling = _nearest(counted, corpus.size // 100)
    return {
        "a rare word": _nearest(counted, 10),
        "a middling word": middling,
        "a phrase": f'"{_phrase(corpus, middling)}"',
        "a prefix": f"{_nearest(counted, corpus.size // 500)[:5]}*",
        "Chinese": corpus.text(9)[20:22],
    }


def _nearest(counted: Counter[str], wanted: int) -> str:
    """The word whose frequency is nearest; the first in the alphabet of several."""
    ascii_words = (item for item in counted.items() if item[0].isascii())
    return min(ascii_words, key=lambda item: (abs(item[1] - wanted), item[0]))[0]


def _phrase(corpus: Corpus, word: str) -> str:
    """Two words that stand side by side somewhere, the first of them `word`."""
    for text in corpus.texts():
        words = text.split()
        if word in words[:-1]:
            return f"{word} {words[words.index(word) + 1]}"
    raise LookupError(f"{word} stands in no text")
