"""The `threadline` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs this process's command line and exits: 0 done, 1 it went wrong, 2 misused, 130 interrupted."""
    # A stop key pressed while modules load is still no reason for a traceback.
    try:
        from threadline.cli.program import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
