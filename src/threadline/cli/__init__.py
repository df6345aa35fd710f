"""The `threadline` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    # Ctrl-C while modules load must not print a traceback either.
    try:
        from threadline.cli.program import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
