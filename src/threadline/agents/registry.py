"""Agents by kind. Built-in kinds and those of other packages are found through entry points.

A package adds a kind with an entry point in the group `threadline.agents`, whose name is the kind and whose object takes an
`AgentSetup` and returns an `Agent`. The kinds that come with Threadline can't be replaced.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias, cast

import msgspec

from threadline.config.settings import AGENT_GROUP
from threadline.errors import InvalidRequest, ThreadlineError
from threadline.ports.agent import Agent

GROUP = AGENT_GROUP

# Entry points, not imports: the code of a kind is loaded when an agent of that kind is made.
BUILT_IN = (
    EntryPoint("acp", "threadline.agents.acp:make", GROUP),
    EntryPoint("echo", "threadline.agents.echo:make", GROUP),
    EntryPoint("function", "threadline.agents.function:make", GROUP),
    EntryPoint("model", "threadline.agents.model:make", GROUP),
)

# Fields that may hold secrets; `repr` leaves their values out.
_HIDDEN = ("api_key", "options")


class AgentSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one agent. A kind reads what it needs; `api_key` is the key itself, and is never shown.

    `options` are the settings of a kind from another package, still unchecked; they may hold secrets and are not shown either.
    """

    kind: str
    # The function of a function agent, such as "my_agent:answer".
    call: str | None = None
    # The model of a model agent, such as "openai:gpt-5".
    model: str | None = None
    system_prompt: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    # The number of earlier messages that a model or a function sees at most; None: all of them.
    history_limit: int | None = None
    # The program of an ACP agent: a preset or a command, and the environment variables passed on to it.
    preset: str | None = None
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    cwd: str | None = None
    permissions: str | None = None
    mode: str | None = None
    auth_method: str | None = None
    options: Mapping[str, object] = {}

    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in self.__rich_repr__() if value is not None]
        hidden = [f"{name}=…" for name in _HIDDEN if getattr(self, name)]
        return f"AgentSetup({', '.join([*fields, *hidden])})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in _HIDDEN]


AgentFactory: TypeAlias = Callable[[AgentSetup], Agent]


def make_agent(settings: AgentSetup) -> Agent:
    """Return an agent of that kind, ready to run.

    Raise `InvalidRequest` for a kind that is not installed or for settings that the kind can't use, and `AgentError` where the
    agent can't be made now because an extra or a key is missing.
    """
    agent = _find_factory(settings.kind)(settings)
    if not callable(getattr(agent, "run", None)) or not hasattr(agent, "replay"):
        raise InvalidRequest(
            f"the agent kind {settings.kind!r} made a {type(agent).__name__}, which is no agent:"
            " it needs `run` and `replay`"
        )
    return agent


def agent_kinds() -> tuple[str, ...]:
    """Return the installed kinds, sorted."""
    return tuple(sorted({point.name for point in _entry_points()}))


def _entry_points() -> list[EntryPoint]:
    taken = {point.name for point in BUILT_IN}
    return [*BUILT_IN, *(point for point in entry_points(group=GROUP) if point.name not in taken)]


def _find_factory(kind: str) -> AgentFactory:
    found = {point.value: point for point in _entry_points() if point.name == kind}
    if not found:
        raise InvalidRequest(_unknown_kind_text(kind, agent_kinds()))
    if len(found) > 1:
        raise InvalidRequest(
            f"several packages bring an agent of kind {kind!r} ({', '.join(sorted(found))}); remove all but one"
        )
    (point,) = found.values()
    try:
        return cast(AgentFactory, point.load())
    except ThreadlineError:
        raise
    except Exception as cause:  # a plug-in's code: whatever it raises, the kind can't be had
        raise InvalidRequest(
            f"the agent kind {kind!r} can't be loaded from {point.value}: {type(cause).__name__};"
            " install its package anew, or remove it"
        ) from cause


def _unknown_kind_text(kind: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(kind, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return (
        f"no agent of the kind {kind!r} is installed; {hint} {', '.join(known)}."
        " A package that brings another is installed with pip, beside Threadline"
    )
