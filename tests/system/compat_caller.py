"""A process that calls `threadline.compat` without end and tells of every call before and after it.

Run as `python -m tests.system.compat_caller FOLDER ROUND SEED`: a line of JSON on standard output when a call begins, and one with
`done` and its result when it has returned. It never ends by itself.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadline.compat import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore

CHATS = 5


def source_of(chat: int) -> SessionSource:
    """The direct message of a chat."""
    return SessionSource(Platform.TELEGRAM, str(chat), user_id=str(chat))


def key_of(chat: int) -> str:
    """The key of that chat."""
    return f"agent:main:telegram:dm:{chat}"


def open_store(folder: Path) -> SessionStore:
    """A store on the folder by which nothing is reset by itself."""
    return SessionStore(folder, GatewayConfig(default_reset_policy=SessionResetPolicy("none")))


def tell(line: dict[str, Any]) -> None:
    """Write a line at once: it is there whole or not at all."""
    os.write(1, json.dumps(line).encode() + b"\n")


class Caller:
    """Makes calls by chance; it knows of each chat the session that it goes on with."""

    def __init__(self, store: SessionStore, number: int, rng: random.Random) -> None:
        self._store = store
        self._number = number
        self._rng = rng
        self._step = 0
        self._ids: dict[int, str] = {}

    def call(self) -> None:
        """Make one call."""
        self._step += 1
        chat = self._rng.randrange(CHATS)
        verbs: list[Callable[[int], None]] = [self._reset, self._switch, self._rename, self._update, self._rewrite]
        verb = self._rng.choice([*verbs, self._append, self._append, self._append, self._get, self._export])
        (verb if chat in self._ids else self._get)(chat)

    def _run(self, call: Callable[[], Any], **told: Any) -> Any:
        tell(told)
        result = call()
        session_id = getattr(result, "session_id", None)
        tell(told | {"done": True} | ({} if session_id is None else {"id": session_id}))
        return result

    def _text(self) -> str:
        return f"{self._number}:{self._step}"

    def _get(self, chat: int) -> None:
        force = self._rng.random() < 0.2
        told = {"op": "get", "key": key_of(chat), "force": force}
        entry = self._run(lambda: self._store.get_or_create_session(source_of(chat), force), **told)
        self._ids[chat] = entry.session_id

    def _append(self, chat: int) -> None:
        session_id, message = self._ids[chat], {"role": "user", "content": self._text()}
        told = {"op": "append", "session": session_id, "text": message["content"]}
        self._run(lambda: self._store.append_to_transcript(session_id, message), **told)
        if self._rng.random() < 0.5:
            self._run(lambda: self._store.append_to_transcript(session_id, message, skip_db=True), op="stored")

    def _rewrite(self, chat: int) -> None:
        session_id, text = self._ids[chat], self._text()
        told = {"op": "rewrite", "session": session_id, "text": text}
        self._run(lambda: self._store.rewrite_transcript(session_id, [{"role": "user", "content": text}]), **told)

    def _reset(self, chat: int) -> None:
        entry = self._run(lambda: self._store.reset_session(key_of(chat)), op="reset", key=key_of(chat))
        self._ids[chat] = entry.session_id

    def _switch(self, chat: int) -> None:
        target = self._rng.choice([f"made-{self._number}-{self._step}", *self._ids.values()])
        told = {"op": "switch", "key": key_of(chat), "session": target}
        self._run(lambda: self._store.switch_session(key_of(chat), target), **told)
        self._ids = {other: held for other, held in self._ids.items() if held != target} | {chat: target}

    def _rename(self, chat: int) -> None:
        entry = self._store.get_or_create_session(source_of(chat))
        told = {"op": "rename", "session": entry.session_id, "text": self._text()}
        self._run(lambda: setattr(entry, "display_name", told["text"]), **told)

    def _update(self, chat: int) -> None:
        told = {"op": "update", "key": key_of(chat)}
        self._run(lambda: self._store.update_session(key_of(chat), 5, input_tokens=1), **told)

    def _export(self, chat: int) -> None:
        self._run(lambda: self._store.get_transcript_path(self._ids[chat]), op="export")


def main(folder: Path, number: int, seed: int) -> None:
    """Call until killed."""
    store = open_store(folder)
    tell({"op": "open", "done": True})
    caller = Caller(store, number, random.Random(seed))
    while True:
        caller.call()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
