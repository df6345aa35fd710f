"""Adapters with one mistake each, of the kind that authors make. The contract has to find it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from threadline.errors import StoreUnavailable, ThreadlineError
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Attachment, IdChange, Inbound, Unreadable
from threadline.ports.platform import (
    Accept,
    Ambiguous,
    BadMarkup,
    Capabilities,
    Gone,
    OfferedCommand,
    Outgoing,
    PlatformError,
    RateLimited,
    Transient,
    Unauthorized,
    Verdict,
)
from threadline.testing.scripted import ScriptedPlatform


class Spoils(ScriptedPlatform):
    """Hands over something else than what came."""

    def spoil(self, event: Inbound) -> Inbound:
        return event

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        async def spoilt(event: Arrival) -> Verdict:
            return await accept(self.spoil(event) if isinstance(event, Inbound) else event)

        await super().run(spoilt, ready)


def spoils(**changes: Callable[[Inbound], object]) -> type[Spoils]:
    """An adapter that fills these fields of what comes in like this."""

    class Spoilt(Spoils):
        def spoil(self, event: Inbound) -> Inbound:
            return msgspec.structs.replace(event, **{name: change(event) for name, change in changes.items()})

    return Spoilt


class Nameless(Spoils):
    def spoil(self, event: Inbound) -> Inbound:
        return msgspec.structs.replace(event, source=msgspec.structs.replace(event.source, user_name=None))


class AccountOfAnother(ScriptedPlatform):
    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        self.account = "another"


class CountsSigns(ScriptedPlatform):
    """Says that characters are counted, whatever its service counts."""

    def __init__(self, address: str, *, capabilities: Capabilities, **options: Any) -> None:
        signs = msgspec.structs.replace(capabilities, length_unit="chars")
        super().__init__(address, capabilities=signs, **options)


class Takes(ScriptedPlatform):
    """Has a way of its own with what it should hand over."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.taken = 0

    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        return await accept(event)

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        await super().run(lambda event: self.take(event, accept), ready)


class AcknowledgesEarly(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        self.tasks.add(asyncio.create_task(accept(event)))  # type: ignore[arg-type]
        return "accepted"


class AcknowledgesFaults(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        try:
            return await accept(event)
        except ThreadlineError:
            return "ignored"


class AcknowledgesNothing(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        await accept(event)
        raise StoreUnavailable("so it comes again, and again")


class TriesLater(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        try:
            return await accept(event)
        except ThreadlineError:
            self.tasks.add(asyncio.create_task(self._later(event, accept)))
            return "accepted"

    async def _later(self, event: Arrival, accept: Accept) -> None:
        await asyncio.sleep(0.05)
        await accept(event)


class DropsTheFirst(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        self.taken += 1
        return "ignored" if self.taken == 1 else await accept(event)


class DropsUnreadable(Takes):
    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        return "ignored" if isinstance(event, Unreadable) else await accept(event)


class MovesLate(Takes):
    """Tells of a new id when it comes to it."""

    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        if not isinstance(event, IdChange):
            return await accept(event)
        self.tasks.add(asyncio.create_task(self._later(event, accept)))
        return "accepted"

    async def _later(self, event: Arrival, accept: Accept) -> None:
        await asyncio.sleep(0.05)
        await accept(event)


class SendsNothingMeanwhile(Takes):
    """Holds one lock for what comes in and what goes out."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        self._lock = asyncio.Lock()

    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        async with self._lock:
            return await accept(event)

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        async with self._lock:
            return await super().send(to, message, key=key)


class Reconnects(Takes):
    """Knows how often it was connected."""

    connections = 0

    async def _listen(self, accept: Accept, ready: asyncio.Event) -> bool:
        self.connections += 1
        self.taken = 0
        return await super()._listen(accept, ready)


class StaysAway(Reconnects):
    async def _listen(self, accept: Accept, ready: asyncio.Event) -> bool:
        if self.connections:
            await asyncio.Event().wait()
        return await super()._listen(accept, ready)


class LeavesAGap(Reconnects):
    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        self._seen: set[str] = set()

    async def take(self, event: Arrival, accept: Accept) -> Verdict:
        is_new = event.dedupe_key not in self._seen
        self._seen.add(event.dedupe_key)
        if is_new and self.connections > 1:
            self.taken += 1
            if self.taken == 1:
                return "ignored"
        return await accept(event)


class Sends(ScriptedPlatform):
    """Sends something else than it is given."""

    def change(self, to: Target, message: Outgoing) -> tuple[Target, Outgoing]:
        return to, message

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        return await super().send(*self.change(to, message), key=key)


def sends(change: Callable[[Target, Outgoing], tuple[Target, Outgoing]]) -> type[Sends]:
    """An adapter that makes this of each message."""

    class Changed(Sends):
        def change(self, to: Target, message: Outgoing) -> tuple[Target, Outgoing]:
            return change(to, message)

    return Changed


def with_text(change: Callable[[Outgoing], str]) -> type[Sends]:
    return sends(lambda to, message: (to, msgspec.structs.replace(message, text=change(message))))


def _without(**fields: object) -> type[Sends]:
    return sends(lambda to, message: (to, msgspec.structs.replace(message, **fields)))


Cuts = with_text(lambda message: message.text[:300])
CutsByUnits = with_text(lambda message: message.text.encode("utf-16-le")[: 2 * 4096].decode("utf-16-le", "ignore"))
EscapesPlain = with_text(lambda message: message.text.replace("_", "\\_"))
LosesFences = with_text(lambda message: message.text.replace("```\n", "", 1))
LosesReply = _without(reply_to=None)
LosesButtons = _without(buttons=())
LosesFiles = _without(files=(), text="without")
LosesThread = sends(lambda to, message: (msgspec.structs.replace(to, thread_id=None), message))
OneFileOnly = sends(lambda to, message: (to, msgspec.structs.replace(message, files=message.files[:1])))
TurnsFiles = sends(
    lambda to, message: (
        to,
        msgspec.structs.replace(
            message, files=tuple(msgspec.structs.replace(file, body=file.body[::-1]) for file in message.files)
        ),
    )
)


class OneId(ScriptedPlatform):
    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        await super().send(to, message, key=key)
        return "1"


class OneAtATime(ScriptedPlatform):
    is_busy = False

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        if self.is_busy:
            raise Transient("one at a time")
        self.is_busy = True
        try:
            return await super().send(to, message, key=key)
        finally:
            self.is_busy = False


class OtherKeys(ScriptedPlatform):
    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        return await super().send(to, message, key=uuid.uuid4().hex)


class SendsAgain(ScriptedPlatform):
    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        while True:
            try:
                return await super().send(to, message, key=key)
            except (Ambiguous, Transient):
                await asyncio.sleep(0.01)


class Fails(ScriptedPlatform):
    """Says one error for another."""

    said: type[PlatformError] = PlatformError
    instead: Callable[[PlatformError], Exception]

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        try:
            return await super().send(to, message, key=key)
        except self.said as error:
            raise type(self).instead(error) from error


def fails(error: type[PlatformError], other: Exception) -> type[Fails]:
    """An adapter that raises the other where it should raise this."""

    class Failing(Fails):
        said = error
        instead = staticmethod(lambda _: other)

    return Failing


SaysTransient = fails(Ambiguous, Transient("it did not arrive"))
ForgetsTheWait = fails(RateLimited, Transient("too much"))
HidesMarkup = fails(BadMarkup, PlatformError("it makes no sense"))
HidesGone = fails(Gone, Transient("not now"))
RaisesItsOwn = fails(PlatformError, RuntimeError("what a library raises"))


class BelievesInLuck(ScriptedPlatform):
    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        with contextlib.suppress(Ambiguous):
            return await super().send(to, message, key=key)
        return "surely-there"


class NeverTypes(ScriptedPlatform):
    async def typing(self, to: Target) -> None: ...


class EditsNothing(ScriptedPlatform):
    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None: ...


class EditsAreTransient(ScriptedPlatform):
    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        try:
            await super().edit(to, message_id, message)
        except PlatformError as cause:
            raise Transient("not now") from cause


class EditsTwiceOnly(ScriptedPlatform):
    edits = 0

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        self.edits += 1
        if self.edits <= 1:
            await super().edit(to, message_id, message)


class KeepsButtons(ScriptedPlatform):
    buttons: tuple[Any, ...] = ()

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self.buttons = message.buttons
        return await super().send(to, message, key=key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        await super().edit(to, message_id, msgspec.structs.replace(message, buttons=self.buttons))


class FetchesOther(ScriptedPlatform):
    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        return (await super().fetch(attachment, at_most=at_most)).replace(b"\r\n", b"\n")


class FetchesAll(ScriptedPlatform):
    async def fetch(self, attachment: Attachment, *, at_most: int) -> bytes:
        return await super().fetch(attachment, at_most=1_000_000)


class KeepsKnocking(ScriptedPlatform):
    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(Unauthorized):
                await super().run(accept, ready)
            await asyncio.sleep(0.05)


class Deaf(ScriptedPlatform):
    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        running = asyncio.create_task(super().run(accept, ready))
        # Once it does not listen; the test's own end must come.
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        running.cancel()


class NeverCloses(ScriptedPlatform):
    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.calls_answered()
        await super().close()


class ClosesLate(ScriptedPlatform):
    async def close(self) -> None:
        is_first = not self._closed.is_set()
        await super().close()
        await asyncio.sleep(1.5 if is_first else 0)


class HangsUp(ScriptedPlatform):
    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        await super().close()


class ClosesOnce(ScriptedPlatform):
    async def close(self) -> None:
        if self._closed.is_set():
            raise RuntimeError("already closed")
        await super().close()


class FailsWhenClosed(ScriptedPlatform):
    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        if self._closed.is_set():
            raise RuntimeError("there is no session")
        return await super().send(to, message, key=key)


class OffersNothing(ScriptedPlatform):
    def offer(self, commands: Sequence[OfferedCommand]) -> None: ...


class OpensNothing(ScriptedPlatform):
    """Calls itself a `ListensAlone`, and can't send before it listens."""

    listens_as = "scripted:main"

    async def open(self) -> None: ...


class ListensOnce(OpensNothing):
    has_run = False

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        if self.has_run:
            raise RuntimeError("it has run before")
        self.has_run = True
        await super().run(accept, ready)
