"""What a test lets other processes do to a store. Importable by name, so that a spawned process finds it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from threadline.store.facade import SessionStore
from threadline.testing.builders import dm, user

T = TypeVar("T")


def in_processes(work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[T]:
    """Runs `work` once for each call, each in a fresh process of its own, all at the same time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(calls), mp_context=context) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


def append_texts(location: str, session_id: str, texts: Sequence[str]) -> int:
    """Appends each text, each under itself as the key; how many were new."""
    with SessionStore.open(location) as store:
        outcomes = [store.append_to_transcript(session_id, user(text), idempotency_key=text) for text in texts]
    return sum(not outcome.duplicate for outcome in outcomes)


def resolve_people(location: str, people: Sequence[str]) -> list[str]:
    """The id of each person's current session."""
    with SessionStore.open(location) as store:
        return [store.get_or_create_session(dm(person)).session_id for person in people]
