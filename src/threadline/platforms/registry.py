"""Platforms by name. Those that come with Threadline enter by the same door as anyone's: the entry points of a package.

A package adds one with

    [project.entry-points."threadline.platforms"]
    pigeon = "pigeon_post.platform:make_pigeon"

where `make_pigeon` is a `PlatformFactory`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias, TypeVar, cast

import msgspec

from threadline.errors import InvalidRequest, ThreadlineError
from threadline.model.client_sources import ACP, WEB
from threadline.model.context import LOCAL
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.platform import Platform

GROUP = "threadline.platforms"

T = TypeVar("T")


class PlatformSetup(msgspec.Struct, frozen=True):
    """What a platform is made of. `name` is the platform in every source; `options` are its kind's own and still unchecked."""

    name: str
    account: str = MAIN_ACCOUNT
    options: Mapping[str, object] = {}

    def read(self, kind: type[T]) -> T:
        """The options as a kind declares them, with all that is wrong with them in an `InvalidRequest`."""
        try:
            return msgspec.convert(dict(self.options), kind)
        except msgspec.ValidationError as cause:
            raise InvalidRequest(f"the options of the platform {self.name!r} are wrong: {cause}") from cause


PlatformFactory: TypeAlias = Callable[[PlatformSetup], Platform]


class UnknownPlatform(InvalidRequest):
    """No platform of this kind is installed."""


class BrokenPlatform(ThreadlineError):
    """This kind of platform is installed but can't be used."""


def known_platforms() -> list[str]:
    """The kinds that are installed, sorted. Being listed is no promise that one can be loaded."""
    return sorted(_entry_points())


def addable_platforms() -> list[str]:
    """The kinds that somebody may want to configure, sorted: not the terminal, which is there anyway, nor what is for tests."""
    doors = _entry_points()
    return sorted(kind for kind in doors if kind != LOCAL and not doors[kind][0].value.startswith("threadline.testing"))


def unusable_reason(kind: str) -> str:
    """Why platforms of that kind can't be used here, and what to do; empty where they can."""
    doors = _entry_points()
    if kind not in doors:
        return _unknown_kind_text(kind)
    try:
        _load(doors[kind][0])
    except BrokenPlatform as cause:
        return str(cause)
    return ""


def make_platform(kind: str, settings: PlatformSetup) -> Platform:
    """A platform of that kind, not yet connected.

    `UnknownPlatform` for a kind that nobody offers, `BrokenPlatform` for one that can't be loaded, `InvalidRequest` for
    settings that it can't be made from. Only the kind that is asked for is imported. The name `local` is the terminal's alone:
    whoever writes there is the owner, and so it is with `acp` and editors; `web` is the page's, where somebody is.
    """
    if settings.name == LOCAL != kind:
        raise InvalidRequest(
            f"only the terminal is called {LOCAL!r}; give the platform of the kind {kind!r} another name"
        )
    if settings.name == ACP:
        raise InvalidRequest(
            f"only editors that run `threadline acp` are called {ACP!r}; give the platform of the kind {kind!r} another name"
        )
    if settings.name == WEB:
        raise InvalidRequest(
            f"only the page that `serve` brings along is called {WEB!r}; give the platform another name"
        )
    doors = _entry_points()
    if kind not in doors:
        raise UnknownPlatform(_unknown_kind_text(kind))
    values = {door.value for door in doors[kind]}
    if len(values) > 1:
        packages = " and ".join(sorted({_package(door) for door in doors[kind]}))
        raise BrokenPlatform(f"the platform {kind!r} is offered by {packages}; uninstall all but one of them")
    made = _load(doors[kind][0])(settings)
    if made.name != settings.name:
        # Whoever speaks under a name speaks for its people.
        raise BrokenPlatform(
            f"the platform {kind!r} of {_package(doors[kind][0])} calls itself {made.name!r}, not {settings.name!r}"
            " as it is configured; report it there"
        )
    return made


def _entry_points() -> dict[str, list[EntryPoint]]:
    doors: dict[str, list[EntryPoint]] = {}
    for door in entry_points(group=GROUP):
        doors.setdefault(door.name, []).append(door)
    return doors


def _load(door: EntryPoint) -> PlatformFactory:
    try:
        factory = door.load()
    except Exception as cause:
        # Importing someone's package runs their code, which may raise anything.
        raise BrokenPlatform(_not_loaded(door, cause)) from cause
    if not callable(factory):
        raise BrokenPlatform(
            f"the platform {door.name!r} of {_package(door)} is no function: {door.value}; report it there"
        )
    return cast(PlatformFactory, factory)


def _unknown_kind_text(kind: str) -> str:
    offered = addable_platforms()
    near = difflib.get_close_matches(kind, offered, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of these: {', '.join(offered) or 'none is installed'}"
    return f"no platform of the kind {kind!r} is installed; {hint}"


def _not_loaded(door: EntryPoint, cause: Exception) -> str:
    package, extra = _package(door), _missing_extra(door)
    reason = f"the platform {door.name!r} of {package} can't be loaded: {type(cause).__name__}: {cause}"
    if isinstance(cause, ImportError) and extra:
        return f"{reason}; install what it needs with: pip install '{package}[{extra}]'"
    return f"{reason}; install {package} again, or report it to its authors"


def _missing_extra(door: EntryPoint) -> str | None:
    """The extra that the entry point names, else one of the package's that is called like the platform."""
    offered = door.dist.metadata.get_all("Provides-Extra") if door.dist else None
    return ",".join(door.extras) or (door.name if door.name in (offered or []) else None)


def _package(door: EntryPoint) -> str:
    return door.dist.name if door.dist else "an unknown package"
