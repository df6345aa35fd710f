"""Places that are small or can't be written, made with what the machine allows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def mounted(*arguments: str) -> bool:
    """Whether the machine let us mount this."""
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


def unmount(folder: Path) -> None:
    """Takes a mount away, also one that is still in use."""
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[bool]:
    """Makes `folder` a disk of that size; says whether that was allowed."""
    folder.mkdir()
    allowed = mounted("-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(folder))
    try:
        yield allowed
    finally:
        if allowed:
            unmount(folder)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """A file or folder can't be changed meanwhile, not even by root, whom permission bits do not bind."""
    if os.geteuid() != 0:
        mode = place.stat().st_mode
        place.chmod(mode & ~0o222)
        yield
        place.chmod(mode)
        return
    assert mounted("--bind", str(place), str(place))
    try:
        assert mounted("-o", "remount,bind,ro", str(place))
        yield
    finally:
        unmount(place)
