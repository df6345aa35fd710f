"""What `/handoff` does: the conversation goes on in another chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from threadline.errors import NotYours
from threadline.gateway.access import AccessRules
from threadline.gateway.actions import Action, Answer, Means
from threadline.gateway.command_table import Call
from threadline.model.access import parse_person_name
from threadline.model.address import account_name
from threadline.model.client_sources import is_local_person
from threadline.model.context import HomeChannel, effective_home_channels
from threadline.model.ownership import ChatPlace, HandoffTarget, parse_handoff_target
from threadline.model.safe_text import safe_line
from threadline.model.session import SessionEntry
from threadline.model.source import MAIN_ACCOUNT, ChatType, SessionSource
from threadline.store.conversations.resume import HandoffPlace, HandoffRefusal
from threadline.texts import commands as texts

_LINE = 80
# A direct chat goes first: two of the same id are hardly ever meant otherwise.
_TYPES: tuple[ChatType, ...] = ("dm", "group", "channel", "thread")


class _There(msgspec.Struct, frozen=True, kw_only=True):
    """The chat that is meant, and what it is called."""

    reached: HandoffPlace
    name: str
    is_home: bool


def is_listed_owner(rules: AccessRules, person: str) -> bool:
    """Whether the configuration says that somebody is an owner; whoever sits at the machine is one anyway."""
    return is_local_person(person) or person in listed_owners(rules)


def listed_owners(rules: AccessRules) -> frozenset[str]:
    """Those whom the configuration calls owners."""
    return frozenset(parse_person_name(name) for name in rules.owners)


async def _handoff(means: Means, call: Call) -> Answer:
    target = parse_handoff_target(call.argument)
    if target is None:
        return Answer(text=texts.USE["handoff"])
    homes = effective_home_channels(means.settings.home_channels, await means.store.preferences.list_home_channels())
    if not target.spots:
        home = _home_of(target, homes)
        if home is None:
            return Answer(text=texts.NO_HOME.format(platform=target.platform))
        target = HandoffTarget(
            platform=home.platform, account=home.account, spots=(ChatPlace(home.chat_id, home.thread_id),)
        )
    if not means.is_connected(target.platform, target.account_or_main):
        place = account_name(target.platform, target.account_or_main)
        return Answer(text=texts.NOT_CONNECTED.format(platform=safe_line(place, _LINE)))
    there = await _find(means, call, target, homes)
    if there is None:
        return Answer(text=_no_such_chat(call))
    return await _hand_over(means, call, there)


async def _hand_over(means: Means, call: Call, there: _There) -> Answer:
    session, to = call.session, there.reached
    is_owners = call.role == "owner" and (there.is_home or await _is_owners_chat(means, to.session))
    # As it is now: its title may be newer than the command.
    title = (await means.store.get_session(session.session_id)).title
    told = texts.HANDED_HERE.format(
        title=texts.HANDED_UNNAMED if title is None else safe_line(title, _LINE), place=_named(session.origin)
    )
    try:
        after = await means.store.resume.hand_over(
            session.session_id, to.session.session_key, told, is_owners=is_owners
        )
    except NotYours:
        return Answer(text=_refusal(call, to))
    return Answer(text=_said(call, after, _place(there.name, to.session.origin)))


def _said(call: Call, after: SessionEntry | HandoffRefusal, place: str) -> str:
    match after:
        case "here":
            return texts.HANDOFF_HERE
        case "busy":
            return texts.HANDOFF_BUSY.format(place=place)
        case "gone":
            return _no_such_chat(call)
        case _:
            return texts.HANDED_OVER.format(place=place)


def _refusal(call: Call, to: HandoffPlace) -> str:
    """Why it can't go on there. Of direct chats that are others' nobody learns that they exist."""
    if not to.is_dm and not call.session.is_shared:
        return texts.HANDOFF_PRIVATE
    return texts.HANDOFF_SHARED if call.session.is_shared else _no_such_chat(call)


async def _is_owners_chat(means: Means, there: SessionEntry) -> bool:
    return there.owner is not None and await means.is_owner(there.owner)


async def _find(means: Means, call: Call, target: HandoffTarget, homes: Sequence[HomeChannel]) -> _There | None:
    sources = list(_sources(call.source, target))
    addresses = [
        means.store.resolve_request(source, agent=means.settings.agent_for(source)[0]).address for source in sources
    ]
    reached = await means.store.resume.find_conversation(addresses)
    if reached is None:
        return None
    origin = reached.session.origin
    for home in homes:
        if _is_home(home, origin):
            return _There(reached=reached, name=home.name or origin.description, is_home=True)
    return _There(reached=reached, name=origin.chat_name or origin.description, is_home=False)


def _sources(speaker: SessionSource, target: HandoffTarget) -> Iterator[SessionSource]:
    """What a message of the same person would come from in each chat that the target may mean."""
    is_there = (speaker.platform, speaker.account) == (target.platform, target.account_or_main)
    for spot in target.spots:
        for chat_type in _TYPES:
            yield SessionSource(
                platform=target.platform,
                account=target.account_or_main,
                chat_id=spot.chat_id,
                chat_type=chat_type,
                thread_id=spot.thread_id,
                user_id=speaker.user_id if is_there else None,
                user_id_alt=speaker.user_id_alt if is_there else None,
            )


def _home_of(target: HandoffTarget, homes: Sequence[HomeChannel]) -> HomeChannel | None:
    """The home channel that a platform's name means: of the account that is said, else of the main one, else of any."""
    fitting = [home for home in homes if home.platform == target.platform and target.account in (None, home.account)]
    return min(fitting, key=lambda home: (home.account != MAIN_ACCOUNT, home.account), default=None)


def _is_home(home: HomeChannel, origin: SessionSource) -> bool:
    named = (home.platform, home.account, home.chat_id, home.thread_id or None)
    return named == (origin.platform, origin.account, origin.chat_id, origin.thread_id or None)


def _named(origin: SessionSource) -> str:
    return _place(origin.chat_name or origin.description, origin)


def _place(name: str, origin: SessionSource) -> str:
    platform = account_name(origin.platform, origin.account)
    return texts.HANDOFF_PLACE.format(name=safe_line(name, _LINE), platform=safe_line(platform, _LINE))


def _no_such_chat(call: Call) -> str:
    return texts.NO_SUCH_CHAT.format(name=safe_line(call.argument, _LINE))


HANDOFF_ACTIONS: Mapping[str, Action] = {"handoff": _handoff}
