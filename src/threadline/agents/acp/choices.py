"""What is chosen for a session of an agent's: its mode and its model, in whichever way the agent lets one choose."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.agents.acp.process import AgentProcess, AgentSession, fault_of
from threadline.log import get_logger
from threadline.model.safe_text import safe_line
from threadline.ports.agent import AgentError
from threadline.rpc import acp
from threadline.rpc.connection import RpcError
from threadline.texts import acp_agents as texts

log = get_logger(__name__)

What: TypeAlias = Literal["mode", "model"]


class Choice(msgspec.Struct, frozen=True):
    """What can be chosen: the value that holds, and the others with their names. `option`: the one that is set, if it is one."""

    current: str
    values: tuple[tuple[str, str], ...]
    option: str | None = None

    def find(self, name: str) -> str | None:
        """The value of that name; names that only differ in case are the same."""
        folded = name.casefold()
        named = (value for value, shown in self.values if folded in (value.casefold(), shown.casefold()))
        return name if any(value == name for value, _ in self.values) else next(named, None)


def choice_of(session: AgentSession, what: What) -> Choice | None:
    """What can be chosen there: by an option where there is one, else in the older ways."""
    for option in session.options:
        if isinstance(option, acp.ConfigSelect) and option.category == what:
            values = tuple((one.value, one.name) for one in option.choices if one.value is not None)
            return Choice(option.current_value, values, option.id)
    if what == "mode" and session.modes is not None:
        modes = session.modes
        return Choice(modes.current_mode_id, tuple((one.id, one.name) for one in modes.available_modes))
    if what == "model" and session.models is not None:
        models = session.models
        return Choice(models.current_model_id, tuple((one.model_id, one.name) for one in models.available_models))
    return None


async def choose_mode(process: AgentProcess, session: AgentSession) -> str | None:
    """Sets the mode that the owner wants; what people are told where there is none."""
    mode = process.wanted.mode
    if mode is None or await _choose(process, session, "mode", mode):
        return None
    return texts.NO_MODE.format(mode=safe_line(mode, 60))


async def choose_model(process: AgentProcess, session: AgentSession, chosen: str | None) -> str | None:
    """Sets the model that was chosen in the chat, else the owner's, else the agent's own; `AgentError` where it is not there.

    What people are told where an agent that took a session up again can't be given it any more.
    """
    choice = choice_of(session, "model")
    if session.own_model is None and choice is not None:
        session.own_model = choice.current
    model = chosen or process.wanted.model
    if model is None:
        # Its own may have gone since, or never have stood in its list: then it goes on with what it has.
        if session.own_model is not None and choice is not None:
            await _choose(process, session, "model", session.own_model)
        return None
    if await _choose(process, session, "model", model):
        return None
    if choice is None and not session.is_new:
        return texts.SAME_MODEL.format(model=safe_line(model, 100))
    told = texts.NO_MODEL if chosen is None else texts.NO_CHOSEN_MODEL
    raise AgentError(told.format(agent=process.wanted.name, model=safe_line(model, 100)), is_owners=chosen is None)


async def _choose(process: AgentProcess, session: AgentSession, what: What, name: str) -> bool:
    """Whether it holds now, as far as is known."""
    choice = choice_of(session, what)
    if choice is None:
        return not session.is_new and await _choose_unseen(process, session, what, name)
    value = name if name == choice.current else choice.find(name)
    if value is None or value == choice.current:
        return value is not None
    return await _is_set(process, what, _set(process, session, what, choice, value))


async def _choose_unseen(process: AgentProcess, session: AgentSession, what: What, name: str) -> bool:
    """The same of an agent that has not said what there is: many say it of new sessions, and of none that they take up.

    It is tried once. False: the agent would not have it, which is told once, too.
    """
    if session.tried.get(what) == name:
        return True
    session.tried[what] = name
    return await _is_set(process, what, _set_by_name(process, session, what, name))


async def _is_set(process: AgentProcess, what: What, setting: Coroutine[Any, Any, None]) -> bool:
    try:
        await setting
    except (RpcError, TimeoutError) as cause:
        log.warning("acp.not_chosen", agent=process.wanted.name, what=what, error=fault_of(cause))
        return False
    return True


async def _set(process: AgentProcess, session: AgentSession, what: What, choice: Choice, value: str) -> None:
    name = session.session_id
    if choice.option is not None:
        request = acp.SetConfigOptionRequest(session_id=name, config_id=choice.option, value=value)
        answer = await process.request("session/set_config_option", request, acp.SetConfigOptionResponse)
        # Some answer with nothing, though it should be all options.
        session.options = answer.config_options or _replaced(session.options, choice.option, value)
        return
    await _set_by_name(process, session, what, value)
    if what == "mode" and session.modes is not None:
        session.modes = msgspec.structs.replace(session.modes, current_mode_id=value)
    elif what == "model" and session.models is not None:
        session.models = msgspec.structs.replace(session.models, current_model_id=value)


async def _set_by_name(process: AgentProcess, session: AgentSession, what: What, value: str) -> None:
    """In the older ways."""
    name = session.session_id
    if what == "mode":
        await process.request("session/set_mode", acp.SetModeRequest(session_id=name, mode_id=value), acp.Nothing)
    else:
        await process.request("session/set_model", acp.SetModelRequest(session_id=name, model_id=value), acp.Nothing)


def _replaced(options: tuple[acp.ConfigOption, ...], wanted: str, value: str) -> tuple[acp.ConfigOption, ...]:
    return tuple(
        msgspec.structs.replace(one, current_value=value)
        if isinstance(one, acp.ConfigSelect) and one.id == wanted
        else one
        for one in options
    )
