"""Telegram as a platform: one bot, whose messages are asked for by long polls."""

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
_TOPICS_KEPT = 10_000


class TelegramOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the kind `telegram`.

    `token` is what @BotFather gave. `base_url` is for a Bot API server of one's own, `proxy` for machines that reach Telegram
    through one. `limits`: no more is sent than Telegram takes; without them it is Telegram that slows us down. `patience` is how
    many seconds an answer may take before nobody knows whether a message arrived.
    """

    token: str
    base_url: str = "https://api.telegram.org"
    proxy: str | None = None
    limits: bool = True
    patience: float = 20.0

    def __repr__(self) -> str:
        return f"TelegramOptions(token='...', base_url={self.base_url!r})"


class _Me(msgspec.Struct, frozen=True):
    id: int
    username: str = ""


class _OpenBot(msgspec.Struct, frozen=True):
    """What there is once Telegram has said who we are."""

    client: TelegramClient
    sender: MessageSender
    here: BotAccount


def make_telegram(settings: PlatformSetup) -> TelegramPlatform:
    """The bot that these settings describe; `InvalidRequest` where they describe none."""
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
        """`jitter` gives numbers from 0 to 1."""
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
        self._opened: _OpenBot | None = None
        self._menu = CommandMenu(name)
        self._topics: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._life: asyncio.Timeout | None = None
        self._is_closed = False
        self._was_contested = False

    def offer(self, commands: Sequence[OfferedCommand]) -> None:
        """Shows these commands in the apps, from the next time on that this gateway listens, or at once where it does."""
        self._menu.set_commands(commands)

    async def open(self) -> None:
        """Asks Telegram who we are; from then on messages can go out. Idempotent."""
        if self._is_closed:
            raise Transient("the platform is closed")
        if self._opened is not None:
            return
        client = self._client = self._client or self._made_client()
        try:
            me = msgspec.convert(await client.call("getMe", {}), _Me)
        except Ambiguous as cause:
            # Nothing is done by asking.
            raise Transient(str(cause)) from cause
        except msgspec.ValidationError as cause:
            raise Transient(f"Telegram does not say who we are: {cause}") from cause
        here = BotAccount(self.name, self.account, BotIdentity(me.id, me.username.lower()))
        self._opened = self._opened or _OpenBot(client, MessageSender(client), here)

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Hands every message to `accept`, and asks for the next ones after it has returned.

        It ends when it is closed, with `Unauthorized`, or with `Contested` where another program keeps asking with our token.
        """
        if self._is_closed:
            return
        end: Contested | Unauthorized | None = None
        try:
            async with asyncio.timeout(None) as self._life:
                link = await self._connected()
                end = await self._listen(link, accept, ready)
        except TimeoutError:
            # `close` ends us so; no other limit is set here.
            if not self._is_closed:
                raise
        finally:
            self._life = None
            # Who was heard for a while is alone again.
            self._was_contested = isinstance(end, Contested) or (self._was_contested and not ready.is_set())
        if end is not None and not self._is_closed:
            raise end

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Shows the message; its id in the chat."""
        refuse_undeclared(self.capabilities, message, to)
        return await self._link().sender.send(to, message, key=key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Lets a message of ours say something else. Files that it has stay; buttons that are not given go."""
        refuse_undeclared(self.capabilities, message, to)
        await self._link().sender.edit(to, message_id, message)

    async def typing(self, to: Target) -> None:
        """Shows for some seconds that an answer is being written."""
        await self._link().sender.typing(to)

    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        """What is in a file. `Gone` where Telegram does not have it any more, `TooLong` where it is more than so many bytes."""
        return await fetch_file(self._link().client, attachment, at_most=at_most)

    async def probe(self) -> Probed:
        """Asks Telegram who we are and how the bot is set up."""
        await self.open()
        return await probe_bot(self._link().client)

    async def close(self) -> None:
        """Waits for calls in flight, some seconds at most; `run` returns. Idempotent."""
        if self._life is not None and not self._is_closed:
            self._life.reschedule(asyncio.get_running_loop().time())
        self._is_closed = True
        if self._client is not None:
            await self._client.close(_CLOSING_SECONDS)

    def _made_client(self) -> TelegramClient:
        options = self._options
        return TelegramClient(
            options.token,
            options.base_url.rstrip("/"),
            limits=options.limits,
            proxy=options.proxy,
            patience=options.patience,
        )

    def _link(self) -> _OpenBot:
        if self._opened is None or self._is_closed:
            raise Transient("Telegram is not connected")
        return self._opened

    async def _connected(self) -> _OpenBot:
        """Tries until Telegram says who we are; `Unauthorized` where it does not know us."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self.open()
                return self._link()
            except Unauthorized:
                raise
            except PlatformError as cause:
                log.warning("platform.unreachable", platform=self.name, reason=str(cause))
            await asyncio.sleep(pause * (0.5 + self._jitter() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _listen(self, link: _OpenBot, accept: Accept, ready: asyncio.Event) -> Contested | Unauthorized:
        admins, descriptions = Admins(link.client), Descriptions(link.client)

        async def store(what: Arrival) -> None:
            await accept(
                await admins.with_admin_flag(await descriptions.with_description(what))
                if isinstance(what, Inbound)
                else what
            )

        async with asyncio.TaskGroup() as group:
            # Beside the messages: neither the menu nor the press of a button keeps anybody waiting.
            showing = group.create_task(self._menu.run(link.client))

            async def take(read: ParsedUpdate) -> bool:
                is_done = await self._accept_update(read, store)
                if is_done and read.press is not None:
                    group.create_task(_answer_press(link.client, read.press))
                return is_done

            poller = UpdatePoller(link.client, self.name, lambda raws: self._read(raws, link.here), take, self._jitter)
            end = await poller.run(ready, is_doubtful=self._was_contested)
            showing.cancel()
        return end

    def _read(self, raws: Sequence[bytes], here: BotAccount) -> list[ParsedUpdate]:
        at = self._clock.now()
        reads = []
        for raw in raws:
            read = read_update(raw, here, topics=self._topics, at=at)
            if read.topic is not None:
                self._remember_topic(read.topic)
            reads.append(read)
        return reads

    def _remember_topic(self, topic: Topic) -> None:
        place = (topic.chat, topic.thread)
        self._topics[place] = topic.name
        self._topics.move_to_end(place)
        while len(self._topics) > _TOPICS_KEPT:
            self._topics.popitem(last=False)

    async def _accept_update(self, read: ParsedUpdate, store: Callable[[Arrival], Awaitable[None]]) -> bool:
        """Whether the update is done with: it is stored, or nobody will ever want it."""
        what = read.event
        if isinstance(what, SkippedUpdate):
            log.debug("telegram.ignored", platform=self.name, update=read.number, reason=what.reason)
            return True
        try:
            await store(what)
        except ThreadlineError as cause:
            log.warning("platform.not_accepted", platform=self.name, update=read.number, reason=str(cause))
            return False
        return True


async def _answer_press(client: TelegramClient, press: str) -> None:
    """Lets the button stop turning. Who pressed it has been heard, whatever becomes of this."""
    try:
        await client.call("answerCallbackQuery", {"callback_query_id": press})
    except PlatformError as cause:
        log.debug("telegram.press_not_answered", reason=str(cause))


class _GetMe(msgspec.Struct, frozen=True):
    id: int
    username: str = ""
    can_join_groups: bool = True
    can_read_all_group_messages: bool = False


class _Hook(msgspec.Struct, frozen=True):
    # Where it is may be a secret of another program.
    url: str = ""
    pending_update_count: int = 0


async def probe_bot(client: TelegramClient) -> Probed:
    """Who we are, and what is worth knowing about it."""
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
