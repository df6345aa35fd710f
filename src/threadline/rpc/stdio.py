"""Standard input and output of this process as lines, kept clear of everything else that reads or prints."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from typing import Final

from threadline.errors import ThreadlineError
from threadline.rpc.lines import Lines, Sink
from threadline.rpc.pipes import PipeSink, lines_from

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
# The most that anybody may ask for without being root.
_PIPE_BYTES: Final = 1024 * 1024


class StdioClosed(ThreadlineError):
    """Standard input or output is closed. Start the program with both of them open."""


@cache
def claim_stdout() -> int:
    """The descriptor of the real standard output, which nothing else knows from here on. Once in a process.

    Whatever prints after this, in Python or not, in this process or a child of it, prints to standard error. Raises
    StdioClosed where there is no standard output.
    """
    # Asked of Python, which looked at its start: by now, the number of a closed one may be some other file's.
    if sys.__stdout__ is None:
        raise StdioClosed
    claimed = os.dup(_STDOUT)
    if sys.__stderr__ is None:
        _point_at_nothing(_STDOUT)
    else:
        os.dup2(_STDERR, _STDOUT)
    # What was printed before, and not flushed yet, is no part of the protocol either.
    sys.__stdout__.flush()
    sys.stdout = sys.stderr
    return claimed


async def open_stdio() -> tuple[Lines, Sink]:
    """Standard input and output, whatever they are: pipes, sockets, terminals or regular files. Once in a process.

    After it, standard input is empty for everyone else: a child that reads it would swallow messages. Raises StdioClosed
    where one of them is closed.
    """
    stdout = claim_stdout()
    if sys.__stdin__ is None:
        raise StdioClosed
    stdin = os.dup(_STDIN)
    _point_at_nothing(_STDIN)
    return lines_from(_unblocked(stdin, os.O_RDONLY)), PipeSink(_widened(_unblocked(stdout, os.O_WRONLY)))


def _point_at_nothing(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != descriptor:
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _unblocked(descriptor: int, way: int) -> int:
    """The same file, never blocking where it could; the descriptor given is used up."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        # Opened anew, because the flag belongs to all who share an open file: set on the terminal, it would break the shell's.
        with suppress(OSError):
            opened = os.open(f"/proc/self/fd/{descriptor}", way | os.O_NONBLOCK | os.O_NOCTTY)
            os.close(descriptor)
            return opened
    os.set_blocking(descriptor, False)
    return descriptor


def _widened(descriptor: int) -> int:
    """The same pipe, with room for a page of lines: whoever fills a small one is woken for every few lines that are read."""
    if sys.platform == "linux":
        # Not a pipe, or too many of them are large already: it works as it is.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return descriptor
