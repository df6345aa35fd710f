"""What only the owner can mend: told once, where they will see it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import msgspec

from threadline.gateway.outbox import Outbox
from threadline.log import get_logger
from threadline.model import words_alarms as words
from threadline.model.access import name_of_person
from threadline.model.context import LOCAL, HomeChannel
from threadline.model.delivery import Target
from threadline.model.homes import homes_in_force
from threadline.model.inert import inert_line
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.agent import AgentError
from threadline.store.alarms import Alarm
from threadline.store.gateway import GatewayStore
from threadline.store.outbox import NewDelivery

log = get_logger(__name__)

# A sentence, not a log: a notice is not split.
_LONGEST_REASON = 500
_CHAT = "chat:"


class Audience(msgspec.Struct, frozen=True):
    """Where the owner may be told by the configuration: the home channels, and who is an owner."""

    homes: tuple[HomeChannel, ...] = ()
    owners: frozenset[str] = frozenset()


class Alarms:
    """Tells the owner, once for all gateways of a database and over restarts, until what failed has worked again.

    They are told in the home channels of connected platforms, else in the direct chat that an owner used last. As long as
    there is none, the log and `threadline status` tell.
    """

    def __init__(self, store: GatewayStore, outbox: Outbox, audience: Audience) -> None:
        self._store = store
        self._outbox = outbox
        self.audience = audience
        # Those that are open as far as this process knows; only for these is the store asked to close one.
        self._open: frozenset[str] = frozenset()

    async def forget_all_but(self, known: Collection[str]) -> None:
        """Alarms about agents and platforms that are no longer there are over."""
        for alarm in await self._store.open_alarms():
            if alarm.name not in known and not alarm.name.startswith(_CHAT):
                await self._store.clear_alarm(alarm.name)

    async def refresh(self) -> None:
        """Looks up which alarms are open: others may have sounded some. What could not be told before is told if it can be now."""
        alarms = await self._store.open_alarms()
        self._open = frozenset(alarm.name for alarm in alarms)
        untold = [alarm for alarm in alarms if not alarm.is_told]
        targets = await self._targets() if untold else []
        for alarm in untold if targets else ():
            if await self._store.tell_alarm(alarm.name, _notices(alarm, targets)):
                self._outbox.wake()

    async def after_turn(self, agent: str, where: Target, error: AgentError | None, *, is_well: bool) -> None:
        """An agent was at a turn, whose chat `where` has heard what came of it.

        At the terminal of this machine nothing follows from that: the owner sits there, perhaps trying another agent out.
        """
        if where.platform == LOCAL:
            return
        if error is not None and error.is_owners:
            text = words.AGENT.format(name=agent, reason=str(error)[:_LONGEST_REASON])
            await self._sound(agent_alarm(agent), text, where)
        elif is_well:
            await self._clear(agent_alarm(agent))

    async def platform_refused(self, name: str, account: str, reason: str) -> None:
        """A platform does not know our key any more."""
        text = words.PLATFORM.format(name=_shown(name, account), reason=reason[:_LONGEST_REASON])
        await self._sound(platform_alarm(name, account), text, None)

    async def platform_works(self, name: str, account: str) -> None:
        """A platform has connected."""
        await self._clear(platform_alarm(name, account))

    async def _sound(self, name: str, text: str, told_in: Target | None) -> None:
        if name in self._open:
            return
        targets = await self._targets()
        elsewhere = [target for target in targets if told_in is None or target.lane != told_in.lane]
        alarm = Alarm(name=name, text=text, since=self._store.clock.now(), is_told=bool(targets))
        is_new = await self._store.sound_alarm(alarm, _notices(alarm, elsewhere))
        self._open |= {name}
        if is_new and not targets:
            log.error("alarm.nobody_to_tell", alarm=name, error=text)
        elif is_new:
            log.warning("alarm.told", alarm=name, chats=len(elsewhere))
            self._outbox.wake()

    async def chat_gone(self, chat: Target, reason: str) -> None:
        """A chat is gone for good, as far as its platform tells."""
        name = _shown(chat.platform, chat.account)
        text = words.CHAT.format(name=name, chat=inert_line(chat.chat_id), reason=reason[:_LONGEST_REASON])
        await self._sound(chat_alarm(chat), text, chat)

    async def chat_works(self, chat: Target) -> None:
        """Something has arrived in a chat."""
        await self._clear(chat_alarm(chat))

    async def _clear(self, name: str) -> None:
        if name not in self._open:
            return
        self._open -= {name}
        if await self._store.clear_alarm(name):
            log.info("alarm.over", alarm=name)

    async def _targets(self) -> list[Target]:
        accounts = [place for place in self._outbox.accounts if place[0] != LOCAL]
        known = homes_in_force(self.audience.homes, await self._store.homes())
        homes = [_target(home) for home in known if (home.platform, home.account) in accounts]
        if homes:
            return homes
        owners = sorted(map(name_of_person, self.audience.owners))
        chat = await self._store.owners_chat(owners, accounts)
        return [] if chat is None else [chat]


def chat_alarm(chat: Target) -> str:
    """The name of the alarm about a chat."""
    return f"{_CHAT}{chat.lane}"


def agent_alarm(name: str) -> str:
    """The name of the alarm about an agent."""
    return f"agent:{name}"


def platform_alarm(name: str, account: str) -> str:
    """The name of the alarm about an account on a platform."""
    return f"platform:{name}@{account}"


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


def _notices(alarm: Alarm, targets: Sequence[Target]) -> list[NewDelivery]:
    """One notice a chat, with a name of its own each time that the alarm is opened."""
    named = f"{alarm.name}\0{alarm.since.isoformat()}"
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return [
        NewDelivery(delivery_id=f"alarm.{digest}.{place}", target=target, text=words.ONCE.format(text=alarm.text))
        for place, target in enumerate(targets)
    ]
