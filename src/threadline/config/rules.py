"""What holds between settings: a value may be fine by itself and still lead nowhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from threadline.config.reading import Problem
from threadline.config.settings import OWN_KINDS, AccessSettings, AgentSettings, Settings
from threadline.model.client_sources import ACP, LOCAL_PLATFORMS
from threadline.model.context import LOCAL

# What a kind can't do without, and which kinds a setting is for.
_NEEDED = {"function": ("call",), "model": ("model",), "acp": ("preset", "command")}
_KINDS_OF = {
    "call": ("function",),
    "model": ("model", "acp"),
    **dict.fromkeys(("preset", "command", "env", "cwd", "permissions", "mode", "auth_method"), ("acp",)),
}


def broken_rules(settings: Settings) -> Iterator[Problem]:
    """Every pair of settings that contradict each other, and every name that nothing has."""
    for name, agent in settings.agents.items():
        yield from _agent(name, agent)
    yield from _agent_names(settings)
    yield from _platforms(settings)
    yield from _bindings(settings)
    yield from _chats(settings)
    yield from _access(settings.access)


def _agent(name: str, agent: AgentSettings) -> Iterator[Problem]:
    if agent.kind not in OWN_KINDS:
        # Only whoever wrote that kind knows what it needs.
        return
    for option in agent.options:
        yield Problem(("agents", name, option), f"there is no such setting{_hint(name, option, agent.kind)}")
    if (needed := _NEEDED.get(agent.kind)) is not None and not any(getattr(agent, setting) for setting in needed):
        yield Problem(("agents", name), f'{" or ".join(needed)} is missing; kind = "{agent.kind}" needs it')
    for setting, kinds in _KINDS_OF.items():
        if agent.kind not in kinds and getattr(agent, setting):
            yield Problem(
                ("agents", name, setting), f'this is never used with kind = "{agent.kind}"; set kind = "{kinds[0]}"'
            )


def _hint(name: str, option: str, kind: str) -> str:
    known = [field for field in AgentSettings.__struct_fields__ if field != "options"]
    near = difflib.get_close_matches(option.lower(), known, n=1)
    if near:
        return f"; did you mean agents.{name}.{near[0]}?"
    return f' of kind = "{kind}"; use one of {", ".join(known)}'


def _agent_names(settings: Settings) -> Iterator[Problem]:
    there = ", ".join(sorted(settings.agents))
    if settings.gateway.default_agent not in settings.agents:
        yield Problem(
            ("gateway", "default_agent"), f'there is no agent "{settings.gateway.default_agent}", only {there}'
        )
    for number, binding in enumerate(settings.bindings):
        if binding.agent not in settings.agents:
            yield Problem(("bindings", number, "agent"), f'there is no agent "{binding.agent}", only {there}')


def _platforms(settings: Settings) -> Iterator[Problem]:
    for name, platform in settings.platforms.items():
        if platform.kind == LOCAL:
            yield Problem(
                ("platforms", name),
                "the terminal is no platform of a gateway; leave this out and use `threadline chat`",
            )
        elif platform.kind == ACP:
            yield Problem(
                ("platforms", name),
                "editors are no platform of a gateway; leave this out and let the editor run `threadline acp`",
            )
        elif name in LOCAL_PLATFORMS:
            # The name of a section is the platform of all that comes from there.
            where = "at the terminal" if name == LOCAL else "in an editor"
            yield Problem(
                ("platforms", name),
                f"whoever writes under this name is taken for the owner {where}; name it [platforms.{platform.kind}]",
            )


def _bindings(settings: Settings) -> Iterator[Problem]:
    seen: dict[tuple[str | None, ...], int] = {}
    for number, binding in enumerate(settings.bindings):
        for name, value in (("account", binding.account), ("chat", binding.chat)):
            if value is not None and binding.platform is None:
                yield Problem(("bindings", number, name), "this needs a platform beside it")
        earlier = seen.setdefault((binding.platform, binding.account, binding.chat), number)
        if earlier != number:
            yield Problem(("bindings", number), f"bindings#{earlier + 1} is for the same place; keep one of them")


def _chats(settings: Settings) -> Iterator[Problem]:
    seen: dict[tuple[str | None, ...], int] = {}
    for number, chat in enumerate(settings.chats):
        earlier = seen.setdefault((chat.platform, chat.account, chat.chat), number)
        if earlier != number:
            yield Problem(("chats", number), f"chats#{earlier + 1} is the same chat; keep one of them")


def _access(access: AccessSettings) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for role, people in (("owners", access.owners), ("trusted", access.trusted), ("guests", access.guests)):
        for person in people:
            if seen.setdefault(person, role) != role:
                yield Problem(("access", role), f'"{person}" is in access.{seen[person]} as well; keep one of them')
