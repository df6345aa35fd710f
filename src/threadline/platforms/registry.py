"""Create platforms by kind. Built-in and third-party kinds are kinds the same way: by the entry points of packages.

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
    """What a platform is created from. `name` is the platform in every source; `options` belong to the kind, unchecked."""

    name: str
    account: str = MAIN_ACCOUNT
    options: Mapping[str, object] = {}

    def read(self, kind: type[T]) -> T:
        """Return the options as the struct of a kind; raise `InvalidRequest` with what is wrong with them."""
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
    """Return the installed kinds, sorted. A listed kind may still fail to load."""
    return sorted(_entry_points())


def addable_platforms() -> list[str]:
    """Return the kinds that can be configured, sorted: without the terminal, which is built in, and without those for tests."""
    kinds = _entry_points()
    return sorted(kind for kind in kinds if kind != LOCAL and not kinds[kind][0].value.startswith("threadline.testing"))


def unusable_reason(kind: str) -> str:
    """Return why platforms of that kind can't be used here and what to do about it; empty if they can."""
    kinds = _entry_points()
    if kind not in kinds:
        return _unknown_kind_text(kind)
    try:
        _load(kinds[kind][0])
    except BrokenPlatform as cause:
        return str(cause)
    return ""


def make_platform(kind: str, settings: PlatformSetup) -> Platform:
    """Create a platform of that kind, not yet connected. Only the package of that kind is imported.

    Raises `UnknownPlatform` for a kind that no package offers, `BrokenPlatform` for a kind that can't be loaded, and
    `InvalidRequest` for settings that the kind refuses. The name `local` is reserved for the terminal and `acp` for editors,
    because their users are the owner; `web` is reserved for the page, which logs its users in.
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
    kinds = _entry_points()
    if kind not in kinds:
        raise UnknownPlatform(_unknown_kind_text(kind))
    values = {entry_point.value for entry_point in kinds[kind]}
    if len(values) > 1:
        packages = " and ".join(sorted({_package(entry_point) for entry_point in kinds[kind]}))
        raise BrokenPlatform(f"the platform {kind!r} is offered by {packages}; uninstall all but one of them")
    platform = _load(kinds[kind][0])(settings)
    if platform.name != settings.name:
        # Messages under a name count as those of the people of that platform.
        raise BrokenPlatform(
            f"the platform {kind!r} of {_package(kinds[kind][0])} calls itself {platform.name!r}, not {settings.name!r}"
            " as it is configured; report it there"
        )
    return platform


def _entry_points() -> dict[str, list[EntryPoint]]:
    kinds: dict[str, list[EntryPoint]] = {}
    for entry_point in entry_points(group=GROUP):
        kinds.setdefault(entry_point.name, []).append(entry_point)
    return kinds


def _load(entry_point: EntryPoint) -> PlatformFactory:
    try:
        factory = entry_point.load()
    except Exception as cause:
        # Importing a third-party package runs its code, which may raise anything.
        raise BrokenPlatform(_not_loaded(entry_point, cause)) from cause
    if not callable(factory):
        raise BrokenPlatform(
            f"the platform {entry_point.name!r} of {_package(entry_point)} is no function: {entry_point.value}; report it there"
        )
    return cast(PlatformFactory, factory)


def _unknown_kind_text(kind: str) -> str:
    offered = addable_platforms()
    near = difflib.get_close_matches(kind, offered, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of these: {', '.join(offered) or 'none is installed'}"
    return f"no platform of the kind {kind!r} is installed; {hint}"


def _not_loaded(entry_point: EntryPoint, cause: Exception) -> str:
    package, extra = _package(entry_point), _missing_extra(entry_point)
    reason = f"the platform {entry_point.name!r} of {package} can't be loaded: {type(cause).__name__}: {cause}"
    if isinstance(cause, ImportError) and extra:
        return f"{reason}; install what it needs with: pip install '{package}[{extra}]'"
    return f"{reason}; install {package} again, or report it to its authors"


def _missing_extra(entry_point: EntryPoint) -> str | None:
    """Return the extra that the entry point names, else the extra of its package with the name of the platform."""
    offered = entry_point.dist.metadata.get_all("Provides-Extra") if entry_point.dist else None
    return ",".join(entry_point.extras) or (entry_point.name if entry_point.name in (offered or []) else None)


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else "an unknown package"
