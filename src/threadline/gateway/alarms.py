"""Alerts about faults that only the owner can fix: each is sent once, where the owner will see it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import timedelta

import msgspec

from threadline.gateway.outbox import Outbox
from threadline.log import get_logger
from threadline.model.access import parse_person_name
from threadline.model.client_sources import LOCAL_PLATFORMS
from threadline.model.context import HomeChannel, effective_home_channels
from threadline.model.delivery import Target
from threadline.model.safe_text import safe_line
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.agent import AgentError
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.owner_alerts import ALERT_KIND, OwnerAlert, OwnerAlertState, notice_id_prefix
from threadline.texts import gateway as texts

log = get_logger(__name__)

# A sentence, not a log: a notice is not split.
_LONGEST_REASON = 500
_CHAT = "chat:"
_PARKED = "parked:"
# Anybody can block us, and each who does is a message to the owner and a row that is read at every look.
MOST_CHATS = 50
CHAT_FORGOTTEN_AFTER = timedelta(days=30)
# A gateway touches the alerts about its own configuration now and then; an alert that none touches is about nothing configured.
SPOKEN_FOR_EVERY = timedelta(minutes=10)
UNKNOWN_FORGOTTEN_AFTER = timedelta(hours=1)


class Audience(msgspec.Struct, frozen=True):
    """The chats and the owners that the configuration names: home channels and ids of owners."""

    homes: tuple[HomeChannel, ...] = ()
    owners: frozenset[str] = frozenset()


class Alarms:
    """Raise and clear the alerts of this gateway: one notice per fault, for all gateways of a database and over restarts.

    Notices go to the home channels of connected platforms, else to the direct chat that an owner used last, and never to an
    unreachable chat. While there is no such chat, only the log and `threadline status` report the alert.
    """

    def __init__(self, store: GatewayStore, outbox: Outbox, audience: Audience) -> None:
        self._store = store
        self._outbox = outbox
        self.audience = audience
        # The alerts that are open as far as this process knows: only these are cleared in the store.
        self._open: frozenset[str] = frozenset()
        # The names of alerts about agents and platforms of this gateway's configuration; `None`: not set.
        self.known: frozenset[str] | None = None

    async def forget(self, names: Collection[str]) -> None:
        """Clear these alerts: this gateway does not use their subjects any more."""
        self._open -= frozenset(names)
        for name in names:
            await self._store.owner_alerts.clear(name)

    async def forget_all_but(self, known: Collection[str]) -> None:
        """Clear alerts about any other agents and platforms. Only for a gateway that has its database to itself."""
        names = [state.name for state in await self._store.owner_alerts.list_states()]
        others = [name for name in names if not (is_about_chat(name) or is_about_message(name))]
        await self.forget([name for name in others if name not in known])

    async def refresh(self) -> None:
        """Read the open alerts, which other gateways may have raised, and send those that could not be sent before.

        Alerts about chats that were unreachable for long are cleared, so that a new failure is reported again. So are alerts
        whose subject is in no running gateway's configuration: no gateway will see it work again.
        """
        before = self._open
        states = await self._store.owner_alerts.list_states()
        # Alerts that were raised or cleared here meanwhile may be missing in the rows.
        raised, cleared = self._open - before, before - self._open
        self._open = frozenset(state.name for state in states) - cleared | raised
        await self._clear_old_chats(states)
        await self._clear_untouched(states)
        targets = [] if all(state.is_sent for state in states) else await self._targets()
        for alert in await self._store.owner_alerts.list_open() if targets else ():
            if not alert.is_sent and await self._notify(alert, targets):
                self._outbox.wake()

    async def after_turn(self, agent: str, where: Target, error: AgentError | None, *, is_well: bool) -> None:
        """An agent was at a turn, whose chat `where` has heard what came of it.

        At the terminal of this machine nothing follows from that: the owner sits there, perhaps trying another agent out.
        """
        if where.platform in LOCAL_PLATFORMS:
            return
        if error is not None and error.is_owners:
            text = texts.ALERT_AGENT.format(name=agent, reason=str(error)[:_LONGEST_REASON])
            await self._raise(agent_alarm(agent), text, where)
        elif is_well:
            await self._clear(agent_alarm(agent))

    async def platform_refused(self, name: str, account: str, reason: str) -> None:
        """A platform does not know our key any more."""
        text = texts.ALERT_PLATFORM.format(name=_shown(name, account), reason=reason[:_LONGEST_REASON])
        await self._raise(platform_alarm(name, account), text, None)

    async def platform_lies(self, name: str, account: str, given: tuple[str, str]) -> None:
        """A platform gave something as another's, of which nothing was taken."""
        other = safe_line(_shown(*given), _LONGEST_REASON)
        text = texts.ALERT_FOREIGN.format(name=_shown(name, account), other=other)
        await self._raise(platform_alarm(name, account), text, None)

    async def platform_works(self, name: str, account: str) -> None:
        """A platform has connected."""
        await self._clear(platform_alarm(name, account))

    async def platform_contested(self, name: str, account: str, reason: str) -> None:
        """Somebody else listens with our key."""
        text = texts.ALERT_CONTESTED.format(name=_shown(name, account), reason=reason[:_LONGEST_REASON])
        await self._raise(listening_alarm(name, account), text, None)

    async def platform_listens(self, name: str, account: str) -> None:
        """Messages come in from a platform that lets one listen."""
        await self._clear(listening_alarm(name, account))

    async def message_parked(self, turn_id: str, where: Target) -> None:
        """A message is given up that gateways died of; its chat hears so too."""
        text = texts.ALERT_PARKED.format(name=_shown(where.platform, where.account))
        await self._raise(f"{_PARKED}{turn_id}", text, where)

    async def _raise(self, name: str, text: str, notified_chat: Target | None) -> None:
        if name in self._open:
            return
        targets = await self._targets(but=name)
        elsewhere = [
            target for target in targets if notified_chat is None or target.ordering_key != notified_chat.ordering_key
        ]
        alert = OwnerAlert(name=name, text=text, since=self._store.clock.now(), is_sent=bool(targets))
        is_new = await self._store.owner_alerts.raise_alert(alert, _notices(alert, elsewhere), self._owners())
        self._open |= {name}
        if is_new and not targets:
            log.error("alarm.nobody_to_tell", alarm=name, error=text)
        elif is_new:
            log.warning("alarm.told", alarm=name, chats=len(elsewhere))
            self._outbox.wake()

    async def chat_gone(self, chat: Target, reason: str) -> None:
        """A chat is gone for good, as far as its platform tells.

        Of very many only the first are told, and those where the owner is told things.
        """
        if chat_alarm(chat) in self._open:
            return
        is_owners = chat.ordering_key in [target.ordering_key for target in await self._targets()]
        others = sum(map(is_about_chat, self._open))
        if others >= MOST_CHATS and not is_owners:
            log.warning("alarm.too_many_chats", platform=chat.platform, account=chat.account)
            return
        name = _shown(chat.platform, chat.account)
        text = texts.ALERT_CHAT.format(name=name, chat=safe_line(chat.chat_id), reason=reason[:_LONGEST_REASON])
        is_last = others + 1 >= MOST_CHATS
        await self._raise(chat_alarm(chat), texts.ALERT_LAST_CHAT.format(text=text) if is_last else text, None)
        if is_owners:
            # Nobody knows since when it is unreachable: send the alerts about agents and platforms again, elsewhere.
            await self._store.owner_alerts.mark_unsent()

    async def chat_works(self, chat: Target) -> None:
        """Something has arrived in a chat."""
        await self._clear(chat_alarm(chat))

    async def _clear(self, name: str) -> None:
        if name not in self._open:
            return
        self._open -= {name}
        if await self._store.owner_alerts.clear(name):
            log.info("alarm.over", alarm=name)

    async def _clear_old_chats(self, states: Sequence[OwnerAlertState]) -> None:
        before = self._store.clock.now() - CHAT_FORGOTTEN_AFTER
        old = [state.name for state in states if is_about_chat(state.name) and state.since < before]
        if old:
            # An unreachable home channel would get the next notice, and nobody would read it.
            kept = {chat_alarm(home) for home in await self._homes()}
            await self.forget([name for name in old if name not in kept])

    async def _clear_untouched(self, states: Sequence[OwnerAlertState]) -> None:
        if self.known is None:
            return
        now, known = self._store.clock.now(), self.known
        ours = [state for state in states if state.name in known and state.touched_at < now - SPOKEN_FOR_EVERY]
        if ours:
            await self._store.owner_alerts.touch([state.name for state in ours])
        before = now - UNKNOWN_FORGOTTEN_AFTER
        for state in states:
            if state.name in known or is_about_chat(state.name) or state.touched_at >= before:
                continue
            if await self._store.owner_alerts.clear_untouched(state.name, before):
                self._open -= {state.name}
                log.info("alarm.unknown", alarm=state.name)

    async def _homes(self) -> list[Target]:
        return [
            _target(home)
            for home in effective_home_channels(self.audience.homes, await self._store.preferences.list_home_channels())
        ]

    async def _targets(self, but: str | None = None) -> list[Target]:
        """Return the chats for notices, without those that have an open alert of their own, or whose alert is `but`."""
        accounts = [place for place in self._outbox.accounts if place[0] not in LOCAL_PLATFORMS]
        unreachable_keys = {name.removeprefix(_CHAT) for name in {*self._open, but or ""} if is_about_chat(name)}
        homes = [home for home in await self._homes() if (home.platform, home.account) in accounts]
        reachable = [home for home in homes if home.ordering_key not in unreachable_keys]
        if reachable:
            return reachable
        chat = await self._store.owner_alerts.find_owner_chat(self._owners(), accounts, unreachable_keys)
        return [] if chat is None else [chat]

    async def _notify(self, alert: OwnerAlert, targets: Sequence[Target]) -> bool:
        return await self._store.owner_alerts.notify(alert.name, _notices(alert, targets), self._owners())

    def _owners(self) -> list[str]:
        return sorted(map(parse_person_name, self.audience.owners))


def chat_alarm(chat: Target) -> str:
    """Return the name of the alert about a chat."""
    return f"{_CHAT}{chat.ordering_key}"


def is_about_chat(name: str) -> bool:
    """Return whether an alert of that name is about a chat."""
    return name.startswith(_CHAT)


def is_about_message(name: str) -> bool:
    """Return whether an alert of that name is about a message that was given up."""
    return name.startswith(_PARKED)


def agent_alarm(name: str) -> str:
    """Return the name of the alert about an agent."""
    return f"agent:{name}"


def platform_alarm(name: str, account: str) -> str:
    """Return the name of the alert about an account on a platform."""
    return f"platform:{name}@{account}"


def listening_alarm(name: str, account: str) -> str:
    """Return the name of the alert about another listener on an account: sending may still work."""
    return f"listening:{name}@{account}"


def _shown(name: str, account: str) -> str:
    return name if account == MAIN_ACCOUNT else f"{name} ({account})"


def _target(home: HomeChannel) -> Target:
    return Target(
        platform=home.platform,
        account=home.account,
        chat_id=home.chat_id,
        chat_type="group",
        thread_id=home.thread_id,
    )


def _notices(alert: OwnerAlert, targets: Sequence[Target]) -> list[NewDelivery]:
    """Return one notice per chat. Its id repeats for the same opening of an alert, so a chat gets each notice only once."""
    text = texts.ALERT_ONCE.format(text=alert.text)
    platform = alert.name.removeprefix(_CHAT).partition("/")[0] if is_about_chat(alert.name) else None
    prefix = notice_id_prefix(platform)
    return [
        NewDelivery(delivery_id=f"{prefix}{_digest(alert, target)}", target=target, text=text, kind=ALERT_KIND)
        for target in targets
    ]


def _digest(alert: OwnerAlert, target: Target) -> str:
    identity = f"{alert.name}\0{alert.since.isoformat()}\0{target.ordering_key}"
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
