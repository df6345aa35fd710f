"""Stands between a client and its agent: `tap.py RECORD COMMAND...` writes each line down before it hands it on.

A line of the record begins with whom it is for, `to_agent` or `to_client`. Nothing is answered before it was asked there.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def carry(direction: str, source: IO[bytes], sink: IO[bytes], record: IO[bytes]) -> None:
    """Hands on all that comes, and then the end."""
    for line in source:
        record.write(f"{direction} ".encode() + line)
        sink.write(line)
        sink.flush()
    sink.close()


def main() -> None:
    path, *command = sys.argv[1:]
    with Path(path).open("ab", 0) as record:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert agent.stdin is not None
        assert agent.stdout is not None
        # A client that stays while its agent is gone must not keep this one.
        asking = ("to_agent", sys.stdin.buffer, agent.stdin, record)
        threading.Thread(target=carry, args=asking, daemon=True).start()
        carry("to_client", agent.stdout, sys.stdout.buffer, record)
        sys.exit(agent.wait())


if __name__ == "__main__":
    main()
