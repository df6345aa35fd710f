"""Telegram as a platform: one bot, which receives messages by long polling."""

from __future__ import annotations

import asyncio
import random
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from threadline.clock import Clock, SystemClock
from threadline.errors import InvalidRequest, ThreadlineError
from threadline.log import get_logger
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Attachment, Inbound
from threadline.model.source import MAIN_ACCOUNT
from threadline.platforms.registry import PlatformSetup
from threadline.platforms.telegram.chat_facts import Admins, Descriptions
from threadline.platforms.telegram.client import TelegramClient
from threadline.platforms.telegram.codec import BotAccount, BotIdentity, ParsedUpdate, SkippedUpdate, Topic, read_update
from threadline.platforms.telegram.menu import CommandMenu
from threadline.platforms.telegram.polling import UpdatePoller
from threadline.platforms.telegram.sending import MessageSender, fetch_file
from threadline.ports.platform import (
    Accept,
    Ambiguous,
    Capabilities,
    Contested,
    OfferedCommand,
    Outgoing,
    PlatformError,
    Probed,
    Transient,
    Unauthorized,
    refuse_undeclared,
)
from threadline.texts import platforms as texts

log = get_logger(__name__)

_TOKEN = re.compile(r"([0-9]{1,20}):[A-Za-z0-9_-]{1,200}")
_CLOSING_SECONDS = 4.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_MAX_TOPICS = 10_000


class TelegramOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the kind `telegram`.

    `token` comes from @BotFather. `base_url` is for a self-hosted Bot API server, `proxy` for machines that reach Telegram through
    a proxy. `limits`: keep the rate limits of Telegram; without them Telegram enforces them. `patience` is the seconds that a
    response may take; after them it is unknown whether a message arrived.
    """

    token: str
    base_url: str = "https://api.telegram.org"
    proxy: str | None = None
    limits: bool = True
    patience: float = 20.0

    def __repr__(self) -> str:
        return f"TelegramOptions(token='...', base_url={self.base_url!r})"


class _GetMe(msgspec.Struct, frozen=True):
    id: int
    username: str = ""
    can_join_groups: bool = True
    can_read_all_group_messages: bool = False


class _OpenBot(msgspec.Struct, frozen=True):
    """The open connections of the bot, with the identity that Telegram reported."""

    client: TelegramClient
    sender: MessageSender
    account: BotAccount


def make_telegram(settings: PlatformSetup) -> TelegramPlatform:
    """Create the platform from its settings; raise `InvalidRequest` if its options are wrong."""
    return TelegramPlatform(settings.read(TelegramOptions), name=settings.name, account=settings.account)


class TelegramPlatform:
    """One bot on Telegram."""

    capabilities = Capabilities(
        max_length=4096,
        length_unit="utf16",
        edit=True,
        typing=True,
        threads=True,
        buttons=True,
        files=True,
        album=10,
        edit_interval=1.0,
        edit_interval_in_groups=3.0,
    )

    def __init__(
        self,
        options: TelegramOptions,
        *,
        name: str = "telegram",
        account: str = MAIN_ACCOUNT,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` returns numbers from 0 to 1."""
        token = _TOKEN.fullmatch(options.token)
        if token is None:
            raise InvalidRequest(
                f"the token of the platform {name!r} is none: @BotFather gives one of digits, a colon and letters"
            )
        if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", options.base_url):
            raise InvalidRequest(f"the base_url of the platform {name!r} is none: it starts with https:// or http://")
        self.name = name
        self.account = account
        self.listens_as = f"telegram:{token[1]}"
        self._options = options
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._client: TelegramClient | None = None
        self._open_bot: _OpenBot | None = None
        self._menu = CommandMenu(name)
        self._topics: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._life: asyncio.Timeout | None = None
        self._is_closed = False
        self._was_contested = False

    def offer(self, commands: Sequence[OfferedCommand]) -> None:
        """Show these commands in the menu of the apps: now if this gateway polls, else from the next time that it does."""
        self._menu.set_commands(commands)

    async def open(self) -> None:
        """Connect and ask Telegram for the identity of the bot; from then on messages can be sent. Idempotent."""
        if self._is_closed:
            raise Transient("the platform is closed")
        if self._open_bot is not None:
            return
        client = self._client = self._client or self._make_client()
        try:
            me = msgspec.convert(await client.call("getMe", {}), _GetMe)
        except Ambiguous as cause:
            # Repeating the request has no effect on Telegram.
            raise Transient(str(cause)) from cause
        except msgspec.ValidationError as cause:
            raise Transient(f"Telegram does not say who we are: {cause}") from cause
        account = BotAccount(self.name, self.account, BotIdentity(me.id, me.username.lower()))
        self._open_bot = self._open_bot or _OpenBot(client, MessageSender(client), account)

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Pass every message to `accept`; request the next ones after it has returned.

        Returns after `close`. Raises `Unauthorized`, or `Contested` if another program keeps polling with this token.
        """
        if self._is_closed:
            return
        end: Contested | Unauthorized | None = None
        try:
            async with asyncio.timeout(None) as self._life:
                bot = await self._connected()
                end = await self._listen(bot, accept, ready)
        except TimeoutError:
            # `close` sets the deadline to now; there is no other timeout here.
            if not self._is_closed:
                raise
        finally:
            self._life = None
            # A `run` that became ready was alone for a while, so the next one need not doubt it.
            self._was_contested = isinstance(end, Contested) or (self._was_contested and not ready.is_set())
        if end is not None and not self._is_closed:
            raise end

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Send a message and return its id in the chat."""
        refuse_undeclared(self.capabilities, message, to)
        return await self._require_open().sender.send(to, message, key=key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Replace text and buttons of a message. Its files stay."""
        refuse_undeclared(self.capabilities, message, to)
        await self._require_open().sender.edit(to, message_id, message)

    async def typing(self, to: Target) -> None:
        """Show a typing indicator for some seconds."""
        await self._require_open().sender.typing(to)

    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        """Return the content of a file. Raises `Gone` if Telegram no longer has it, `TooLong` for more than `at_most` bytes."""
        return await fetch_file(self._require_open().client, attachment, at_most=at_most)

    async def probe(self) -> Probed:
        """Return the identity of the bot, with remarks on its settings at @BotFather."""
        await self.open()
        return await probe_bot(self._require_open().client)

    async def close(self) -> None:
        """Wait for calls in flight, four seconds at most, and let `run` return. Idempotent."""
        if self._life is not None and not self._is_closed:
            self._life.reschedule(asyncio.get_running_loop().time())
        self._is_closed = True
        if self._client is not None:
            await self._client.close(_CLOSING_SECONDS)

    def _make_client(self) -> TelegramClient:
        options = self._options
        return TelegramClient(
            options.token,
            options.base_url.rstrip("/"),
            limits=options.limits,
            proxy=options.proxy,
            patience=options.patience,
        )

    def _require_open(self) -> _OpenBot:
        if self._open_bot is None or self._is_closed:
            raise Transient("Telegram is not connected")
        return self._open_bot

    async def _connected(self) -> _OpenBot:
        """Open the bot, retrying with back-off; raise `Unauthorized` if Telegram refuses the token."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self.open()
                return self._require_open()
            except Unauthorized:
                raise
            except PlatformError as cause:
                log.warning("platform.unreachable", platform=self.name, reason=str(cause))
            await asyncio.sleep(pause * (0.5 + self._jitter() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _listen(self, bot: _OpenBot, accept: Accept, ready: asyncio.Event) -> Contested | Unauthorized:
        admins, descriptions = Admins(bot.client), Descriptions(bot.client)

        async def store(event: Arrival) -> None:
            if isinstance(event, Inbound):
                event = await admins.with_admin_flag(await descriptions.with_description(event))
            await accept(event)

        async with asyncio.TaskGroup() as group:
            # Tasks of their own: neither the menu nor the acknowledgement of a button press may delay messages.
            menu = group.create_task(self._menu.run(bot.client))

            async def accept_update(update: ParsedUpdate) -> bool:
                is_done = await self._accept_update(update, store)
                if is_done and update.press is not None:
                    group.create_task(_answer_press(bot.client, update.press))
                return is_done

            def read(raws: Sequence[bytes]) -> list[ParsedUpdate]:
                return self._read(raws, bot.account)

            poller = UpdatePoller(bot.client, self.name, read, accept_update, self._jitter)
            end = await poller.run(ready, is_doubtful=self._was_contested)
            menu.cancel()
        return end

    def _read(self, raws: Sequence[bytes], account: BotAccount) -> list[ParsedUpdate]:
        at = self._clock.now()
        updates = []
        for raw in raws:
            update = read_update(raw, account, topics=self._topics, at=at)
            if update.topic is not None:
                self._remember_topic(update.topic)
            updates.append(update)
        return updates

    def _remember_topic(self, topic: Topic) -> None:
        key = (topic.chat, topic.thread)
        self._topics[key] = topic.name
        self._topics.move_to_end(key)
        while len(self._topics) > _MAX_TOPICS:
            self._topics.popitem(last=False)

    async def _accept_update(self, update: ParsedUpdate, store: Callable[[Arrival], Awaitable[None]]) -> bool:
        """Return whether the update is finished: it is stored, or it was skipped."""
        event = update.event
        if isinstance(event, SkippedUpdate):
            log.debug("telegram.ignored", platform=self.name, update=update.number, reason=event.reason)
            return True
        try:
            await store(event)
        except ThreadlineError as cause:
            log.warning("platform.not_accepted", platform=self.name, update=update.number, reason=str(cause))
            return False
        return True


async def _answer_press(client: TelegramClient, press: str) -> None:
    """Acknowledge a button press, so that the app stops waiting. The press itself is stored; a failure here is only logged."""
    try:
        await client.call("answerCallbackQuery", {"callback_query_id": press})
    except PlatformError as cause:
        log.debug("telegram.press_not_answered", reason=str(cause))


class _Hook(msgspec.Struct, frozen=True):
    # The URL may contain a secret of another program.
    url: str = ""
    pending_update_count: int = 0


async def probe_bot(client: TelegramClient) -> Probed:
    """Return the identity of a bot, with remarks on its settings at @BotFather."""
    try:
        me = msgspec.convert(await client.call("getMe", {}), _GetMe)
        hook = msgspec.convert(await client.call("getWebhookInfo", {}), _Hook)
    except msgspec.ValidationError as cause:
        raise Transient(f"Telegram does not say who we are: {cause}") from cause
    return Probed(f"@{me.username} (id {me.id})", tuple(_remarks(me, hook)))


def _remarks(me: _GetMe, hook: _Hook) -> Iterator[str]:
    if not me.can_join_groups:
        yield texts.TELEGRAM_NO_GROUPS
    elif me.can_read_all_group_messages:
        yield texts.TELEGRAM_HEARS_ALL
    else:
        yield texts.TELEGRAM_PRIVATE
    if hook.url:
        yield texts.TELEGRAM_HOOKED
    if hook.pending_update_count:
        yield texts.TELEGRAM_WAITING.format(count=hook.pending_update_count)
