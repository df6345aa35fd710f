"""What the commands do with which people choose: a model, a time zone, a home channel."""

from __future__ import annotations

from collections.abc import Mapping

from threadline.gateway.actions import Action, Answer, Means
from threadline.gateway.command_table import Call
from threadline.model.address import account_name
from threadline.model.policy import find_zone, local_time, suggest_zone
from threadline.model.safe_text import safe_line
from threadline.model.session import SessionEntry
from threadline.ports.agent import ChoosesModel
from threadline.texts import commands as texts

_DEFAULT = "default"
_LINE = 80


async def _model(means: Means, call: Call) -> Answer:
    session_id = call.session.session_id
    if not call.argument:
        return Answer(text=_which(means, call, await means.store.get_session(session_id)))
    if call.argument.lower() == _DEFAULT:
        await means.store.sessions.choose_model(session_id, None)
        return Answer(text=texts.MODEL_OWN_AGAIN)
    _, agent = means.settings.agent_for(call.source)
    if not isinstance(agent, ChoosesModel):
        return Answer(text=texts.MODEL_FIXED)
    name = await agent.check_model(call.argument)
    await means.store.sessions.choose_model(session_id, name)
    return Answer(text=texts.MODEL_CHOSEN.format(model=safe_line(name, _LINE)))


def _which(means: Means, call: Call, entry: SessionEntry) -> str:
    """What is to answer, and what has."""
    chosen = means.chosen_model(call, entry)
    told = [texts.MODEL_IS_OWN if chosen is None else texts.MODEL_IS.format(model=safe_line(chosen, _LINE))]
    if entry.model is not None:
        told.append(texts.MODEL_LAST.format(model=safe_line(entry.model, _LINE)))
    return " ".join(told)


async def _timezone(means: Means, call: Call) -> Answer:
    if call.person is None:
        return Answer(text=texts.ZONE_OF_NOBODY)
    if not call.argument:
        return await _zone_told(means, call.person, texts.ZONE_NOT_NAMED)
    if call.argument.lower() == _DEFAULT:
        await means.store.preferences.set_timezone(call.person, None)
        return await _zone_told(means, call.person, texts.ZONE_GONE)
    zone = find_zone(call.argument)
    if zone is None:
        return Answer(text=_no_zone(call.argument))
    await means.store.preferences.set_timezone(call.person, zone)
    return await _zone_told(means, call.person, texts.ZONE_NOT_NAMED)


async def _zone_told(means: Means, person: str, where_none: str) -> Answer:
    zone = await means.store.preferences.timezone_of(person)
    said = texts.ZONE_IS if zone.is_own else where_none
    return Answer(text=said.format(zone=zone.name, time=local_time(zone.name, means.store.clock.now())))


def _no_zone(typed: str) -> str:
    near, name = suggest_zone(typed), safe_line(typed, _LINE)
    return texts.NO_ZONE.format(name=name) if near is None else texts.NO_ZONE_NEAR.format(name=name, near=near)


async def _sethome(means: Means, call: Call) -> Answer:
    source = call.source
    place = account_name(source.platform, source.account)
    if not call.argument:
        home = await means.store.preferences.set_home_channel(source)
        return Answer(text=texts.HOME_SET.format(platform=place, name=home.channel.name))
    if not await means.store.preferences.remove_home_channel(source.platform, source.account):
        return Answer(text=texts.NO_HOME_SET.format(platform=place))
    for channel in means.settings.home_channels:
        if (channel.platform, channel.account) == (source.platform, source.account):
            name = safe_line(channel.name, _LINE)
            return Answer(text=texts.HOME_CONFIGURED.format(platform=place, name=name))
    return Answer(text=texts.HOME_GONE.format(platform=place))


CHOOSING_ACTIONS: Mapping[str, Action] = {"model": _model, "timezone": _timezone, "sethome": _sethome}
