"""A process that appends as fast as it can and tells of every append that the store acknowledged.

Run as `python -m tests.system.appender URL ROUND SESSION…`: one line `caller turn` on standard output for each.
It never ends by itself.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading

from threadline import SessionStore

CALLERS = 4


def key_of(round_number: int, caller: int, turn: int) -> str:
    """The idempotency key and the text of a caller's message."""
    return f"{round_number}:{caller}:{turn}"


def main(url: str, round_number: int, sessions: list[str]) -> None:
    store = SessionStore.open(url)

    def appends(caller: int) -> None:
        session = sessions[caller % len(sessions)]
        for turn in itertools.count():
            key = key_of(round_number, caller, turn)
            store.append_to_transcript(session, {"role": "user", "content": key}, idempotency_key=key)
            # One write to a pipe, not torn: a line is there whole or not at all.
            os.write(1, f"{caller} {turn}\n".encode())

    for caller in range(CALLERS):
        threading.Thread(target=appends, args=(caller,)).start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
