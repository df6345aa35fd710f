"""An editor's agent: prompts, the list of sessions, and a long session told again; over real pipes, beside a bare agent's."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.editor_pipe import Pipe, agent, ours, piped
from bench.measure import Figure, Sample, alternate, interleave, rate, say
from bench.stage import Stage
from threadline.model.client_sources import editor_source
from threadline.store.facade import GatewayStore

_PROMPTS = 400
_SYNCS = 3
_PAGES = 200
_MANY, _FEW = 10_000, 100
_FOLDERS = ("/home/ada/garden", "/home/ada/kitchen")
_MESSAGES = 10_000
_ROUNDS = 3
_BLOCK = os.urandom(4096)
# So many prompts have a session of their own.
_WARM = 20
# So many lines of a load, at the most, are no messages.
_BESIDE = 10
_SAID, _CHUNK = b'"agent_message_chunk"', b'_message_chunk"'
PROMPT = Figure(
    name="acp: a prompt to echo, there and back",
    unit="microseconds",
    beside="a bare agent on the SDK, and 3 fdatasync",
    at_most=1.0,
)
PROMPT_BARE = Figure(
    name="acp: a prompt to echo, there and back", unit="microseconds", beside="a bare agent on the SDK"
)
PAGE = Figure(name="acp: a page of 10,000 sessions", unit="microseconds", beside="a page of 100 sessions", at_most=1.3)
FOLDER_PAGE = Figure(
    name="acp: a page of 10,000 sessions, one folder", unit="microseconds", beside="the same of 100", at_most=1.3
)
DEEP_PAGE = Figure(
    name="acp: a page deep in 10,000 sessions", unit="microseconds", beside="the second page of 100", at_most=1.3
)
REPLAY = Figure(
    name="acp: 10,000 messages told again", unit="per second", beside="the same lines written to a pipe", at_least=0.3
)


def acp_prompt(stage: Stage) -> Iterator[Sample]:
    """The same words to both agents in turn, and between them what the disk takes for a block."""
    url = stage.places.fresh("acp_prompt")
    times = stage.scaled(_PROMPTS, least=20)
    with (
        tempfile.TemporaryFile(dir=Path(url.removeprefix("sqlite://")).parent) as file,
        agent("-m", "bench.editor_bare") as bare,
        agent(*ours(url)) as us,
    ):
        # In new sessions each time: what a long one costs is measured elsewhere.
        floor, work, sync = _in_turn(lambda: (_prompting(bare), _prompting(us), lambda: _sync(file.fileno())), times)
    say(f"    bare {floor:,.0f} µs, ours {work:,.0f} µs, fdatasync {sync:,.0f} µs")
    yield Sample(PROMPT, work, floor + _SYNCS * sync)
    yield Sample(PROMPT_BARE, work, floor)
    stage.check(url)


def acp_list(stage: Stage) -> Iterator[Sample]:
    """The first page of all, the first of one folder, and one in the middle."""
    sizes = _FEW, stage.scaled(_MANY, least=_FEW)
    few_url, many_url = (_sessions(stage, count) for count in sizes)
    with agent(*ours(few_url)) as few, agent(*ours(many_url)) as many:
        folder = {"cwd": _FOLDERS[0]}
        deep = [{"cursor": _walk(*one)} for one in zip((few, many), sizes, strict=True)]
        for figure, params in ((PAGE, ({}, {})), (FOLDER_PAGE, (folder, folder)), (DEEP_PAGE, deep)):
            steps = [_listing(*one) for one in zip((few, many), params, strict=True)]
            floor, work = interleave(*steps, times=stage.scaled(_PAGES, least=20))
            say(f"    {figure.name}: {work:,.0f} µs, of few {floor:,.0f} µs")
            yield Sample(figure, work, floor)
    if stage.is_last:
        stage.check(many_url)


def acp_replay(stage: Stage) -> Iterator[Sample]:
    """One long session, loaded again and again, and its own lines from a process that has them in memory."""
    count = stage.scaled(_MESSAGES, least=500)
    url, session = _long(stage, count)
    params = {"sessionId": session, "cwd": _FOLDERS[0], "mcpServers": []}
    with agent(*ours(url)) as us, tempfile.NamedTemporaryFile() as file:
        lines = us.lines("session/load", params)
        told = [line for line in lines if line.startswith(b'{"jsonrpc":"2.0","method"')]
        _check(stage, session, told, count)
        file.write(b"".join(told))
        file.flush()
        with piped("-m", "bench.editor_bare", file.name) as bare:

            def floor() -> int:
                bare.write(b"go\n")
                return len(bare.take(count))

            def work() -> int:
                # With the answer, and what is told behind the last answer: it comes before the next replay.
                beside = len(us.lines("session/load", params)) - count
                assert 0 < beside < _BESIDE
                return count

            floor()
            yield rate(REPLAY, alternate(floor, work, rounds=_ROUNDS))
            again = [line for line in us.lines("session/load", params) if _CHUNK in line]
            _check(stage, session, again, count)
    if stage.is_last:
        stage.check(url)


def _prompting(pipe: Pipe) -> Callable[[], object]:
    """Says one word: of more, our echo makes pieces and pauses between them."""
    session = pipe.ask("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "basil"}]}

    def prompt() -> None:
        *told, answer = pipe.lines("session/prompt", params)
        assert b"end_turn" in answer
        assert [line for line in told if _SAID in line and b"basil" in line]

    return prompt


def _walk(pipe: Pipe, count: int) -> str:
    """Where the middle of the list is, after a look whether it is in order and has each session once."""
    cursors: list[str] = []
    seen: list[tuple[str, str]] = []
    while True:
        page = pipe.ask("session/list", {"cursor": cursors[-1]} if cursors else {})
        seen += [(one["updatedAt"], one["sessionId"]) for one in page["sessions"]]
        if "nextCursor" not in page:
            break
        cursors.append(page["nextCursor"])
    times = [at for at, _ in seen]
    if not len({name for _, name in seen}) == len(seen) == count or times != sorted(times, reverse=True):
        raise RuntimeError("the list is not in order, or has not each session once")
    return cursors[len(cursors) // 2]


def _listing(pipe: Pipe, params: dict[str, str]) -> Callable[[], object]:
    [first] = pipe.lines("session/list", params)
    if "cwd" in params and first.count(msgspec.json.encode(params["cwd"])) != _FEW // 2:
        raise RuntimeError("the list of one folder has sessions of others")

    def page() -> None:
        [answer] = pipe.lines("session/list", params)
        assert answer.count(b'"sessionId"') == _FEW // 2

    return page


def _sync(descriptor: int) -> None:
    os.write(descriptor, _BLOCK)
    os.fdatasync(descriptor)


def _in_turn(make: Callable[[], Sequence[Callable[[], object]]], times: int) -> list[float]:
    """Median microseconds of short operations, done in turn; they are made anew after every few rounds, off the clock."""
    rounds: list[list[float]] = []
    for first in range(-_WARM, times, _WARM):
        steps = make()
        done = [[_microseconds(step) for step in steps] for _ in range(_WARM)]
        rounds += done if first >= 0 else []
    return [statistics.median(taken) for taken in zip(*rounds, strict=True)]


def _microseconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return (time.perf_counter() - started) * 1_000_000


def _check(stage: Stage, session: str, lines: list[bytes], count: int) -> None:
    """Each message is told once, in order, by a line that is an update to the letter: what is not right need not be fast."""
    kinds = {"user": "user_message_chunk", "assistant": "agent_message_chunk"}
    for line, message in zip(lines, stage.corpus.messages(0, count), strict=True):
        content = {"type": "text", "text": message["content"]}
        update = {"sessionUpdate": kinds[message["role"]], "content": content}
        params = {"sessionId": session, "update": update}
        if msgspec.json.decode(line) != {"jsonrpc": "2.0", "method": "session/update", "params": params}:
            raise RuntimeError("a line does not tell what was said")


def _sessions(stage: Stage, count: int) -> str:
    """A store with so many sessions of an editor, with a message each."""

    async def fill(url: str) -> None:
        async with await GatewayStore.open(url) as store:
            for first in range(0, count, 100):
                await asyncio.gather(*(_begin(stage, store, number) for number in range(first, first + 100)))
            await store.index_pending()

    return stage.prepared(f"acp_{count}", lambda url: asyncio.run(fill(url)))


async def _begin(stage: Stage, store: GatewayStore, number: int) -> None:
    source = editor_source(f"20260101_000000_{number:012x}", "ada")
    held = await store.editor_sessions.create(source, _FOLDERS[number % len(_FOLDERS)], agent="main")
    await store.append_to_transcript(held.entry.session_id, stage.corpus.message(number), idempotency_key="m:0")


def _long(stage: Stage, count: int) -> tuple[str, str]:
    """A store with one session of so many messages, and its id."""
    source = editor_source("20260101_000000_000000000000", "ada")

    async def fill(url: str) -> None:
        async with await GatewayStore.open(url) as store:
            held = await store.editor_sessions.create(source, _FOLDERS[0], agent="main")
            for number, message in enumerate(stage.corpus.messages(0, count)):
                await store.append_to_transcript(held.entry.session_id, message, idempotency_key=f"m:{number}")
            await store.index_pending()

    return stage.prepared("acp_long", lambda url: asyncio.run(fill(url))), str(source.chat_id)
