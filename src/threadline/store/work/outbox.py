"""Deliveries and streamed messages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import UnknownDelivery
from threadline.model.delivery import MAX_RETRY_TIME, Button, DeliveryState, Park, RetryAt, Target, target_of
from threadline.model.inbound import Attachment, Inbound
from threadline.model.source import SessionSource
from threadline.store.conversations import records
from threadline.store.engine.database import Row, Step, Tx, read
from threadline.store.rows import NO_LIMIT, json_text
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes, writes_now

_STEP = 50
_NO_FILES = "[]"
_UNNAMED = Attachment(handle="")
_BROKE_DOWN = "the gateway broke down while it was sending this, more than once"
# What no chat can show, and not every engine keep: NUL and halves of surrogate pairs.
_UNSHOWABLE = {0: None} | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Something to send. The id makes storing it idempotent."""

    delivery_id: str
    target: Target
    text: str
    kind: str = "notice"
    # The command that it answers, to be shown again with it.
    asked: str = ""
    reply_to: str | None = None
    # Shown where the platform has buttons; nothing depends on them.
    buttons: tuple[Button, ...] = ()
    # Files that the store has; what is in them is read when they are sent.
    files: tuple[Attachment, ...] = ()
    session_pk: int | None = None
    turn_pk: int | None = None
    # Whom it is for, where no session of theirs tells: erasing them takes it away, and they may ask to see it.
    person: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is being sent now, by its holder alone."""

    pk: int
    delivery_id: str
    target: Target
    text: str
    reply_to: str | None
    # The message that already stands in the chat and is only to be brought to its final text.
    external_id: str | None
    is_doubtful: bool
    attempts: int
    created_at: Instant
    session_pk: int | None
    turn_pk: int | None
    kind: str
    buttons: tuple[Button, ...] = ()
    files: tuple[Attachment, ...] = ()


class DeliverySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of a delivery. `files` are the names of its files, empty ones once it was sent."""

    pk: int
    delivery_id: str
    target: Target
    kind: str
    state: DeliveryState
    is_doubtful: bool
    attempts: int
    created_at: str
    sent_at: str | None
    external_id: str | None
    error: str | None
    text: str
    files: tuple[str, ...] = ()
    # The command that it answers, where that is kept.
    asked: str = ""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a running turn streams into. Without an id nothing of it stands in the chat yet, as far as we know."""

    pk: int
    external_id: str | None
    # An earlier attempt may have sent its beginning: nothing more is shown until the answer is whole, and marked.
    is_doubtful: bool = False


def notice_about(event: Inbound, kind: str, text: str) -> NewDelivery:
    """What the chat of an event is told about it, named after the event: told again it is the same."""
    source = event.source
    named = f"{source.platform}\0{source.account}\0{event.dedupe_key}"
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return NewDelivery(delivery_id=f"{kind}.{digest}", target=target_of(source), text=text)


def enqueue(tx: Tx, at: Instant, new: NewDelivery) -> None:
    """Stores something to send; the same id again changes nothing."""
    tx.run(
        "add_delivery",
        state="pending",
        kind=new.kind,
        text=showable(new.text),
        asked=showable(new.asked),
        buttons=json_text(new.buttons),
        files=json_text(new.files) if new.files else _NO_FILES,
        at=at,
        **_place(new),
    )


def showable(text: str) -> str:
    """The text as a chat can show it."""
    return text.translate(_UNSHOWABLE)


def claim(
    tx: Tx,
    at: Instant,
    accounts: Sequence[tuple[str, str]],
    *,
    owner: str,
    lease: int,
    limit: int,
    lanes: Sequence[str] | None = None,
) -> list[Delivery]:
    """Takes what is due on these accounts, the first of each chat; whoever holds it sends it. `lanes`: in these chats alone."""
    if lanes is not None:
        due = [row for lane in lanes for row in tx.rows("due_in_lane", lane=lane, at=at)]
        return _taken(tx, at, due[:limit], owner=owner, lease=lease)
    taken: list[Delivery] = []
    for platform, account in accounts:
        room = limit - len(taken)
        if room <= 0:
            break
        rows = tx.rows("due_deliveries", platform=platform, account=account, at=at, limit=room)
        taken += _taken(tx, at, rows, owner=owner, lease=lease)
    return taken


def renew(tx: Tx, at: Instant, flying: Sequence[Delivery], *, owner: str, lease: int) -> None:
    """What is still being sent stays with its sender."""
    for delivery in flying:
        tx.run("renew_delivery", pk=delivery.pk, owner=owner, attempts=delivery.attempts, lease=lease, at=at)


def sent(
    tx: Tx, at: Instant, delivery: Delivery, external_id: str, *, owner: str, may_be_repeated: bool = False
) -> bool:
    """Keeps the receipt; False where another holder took the delivery over."""
    state: DeliveryState = "unknown" if may_be_repeated else "sent"
    # Whoever looks is told that there were files, not which.
    files = json_text((_UNNAMED,) * len(delivery.files)) if delivery.files else _NO_FILES
    return tx.run("mark_sent", state=state, external_id=external_id, files=files, at=at, **_held(delivery, owner)) == 1


def forget_message(tx: Tx, delivery: Delivery, *, owner: str) -> bool:
    """The message that was to be edited is gone, and another one takes its place; False where another holder took it over."""
    return tx.run("forget_message", **_held(delivery, owner)) == 1


def failed(
    tx: Tx, delivery: Delivery, step: RetryAt | Park, *, owner: str, error: str, is_doubtful: bool = False
) -> bool:
    """It is tried again, or given up until somebody asks; False where another holder took it over."""
    how = _held(delivery, owner) | {"doubtful": int(is_doubtful or delivery.is_doubtful)}
    if isinstance(step, Park):
        return tx.run("park_delivery", error=step.reason, **how) == 1
    return tx.run("reschedule", due_at=step.at, error=error, **how) == 1


def finish_stream(tx: Tx, at: Instant, turn_pk: int, text: str | None) -> None:
    """What a turn streamed is brought to its last text; `None`: nothing of it is wanted any more."""
    if text:
        tx.run("finish_stream", turn_pk=turn_pk, text=showable(text), at=at)
    else:
        tx.run("drop_stream", turn_pk=turn_pk)


def open_stream(tx: Tx, at: Instant, new: NewDelivery) -> Stream | None:
    """The stream of a turn, opened before its first send; a turn that runs again gets the one it had.

    `None` as long as something older is still to be sent in that chat.
    """
    tx.run("open_stream", at=at, **_place(new))
    row = tx.find("find_stream", turn_pk=new.turn_pk)
    if row is None:
        raise UnknownDelivery(f"the stream of {new.delivery_id} was finished before")
    pk, external_id, attempts, must_wait = row
    if external_id is None and must_wait:
        return None
    if external_id is None and attempts == 0:
        tx.run("begin_stream", pk=pk, step=1)
    return Stream(pk=pk, external_id=external_id, is_doubtful=external_id is None and attempts > 0)


def stream_not_begun(tx: Tx, stream: Stream) -> None:
    """Its first send did not arrive, for certain: nothing of it is in doubt."""
    tx.run("begin_stream", pk=stream.pk, step=-1)


def keep_stream_id(tx: Tx, stream: Stream, external_id: str) -> None:
    """Keeps the platform's id before the message is edited for the first time."""
    tx.run("keep_stream_id", pk=stream.pk, external_id=external_id)


def recover(tx: Tx, at: Instant, safe: Sequence[tuple[str, str]]) -> int:
    """Deliveries whose holder is gone go on: on accounts in `safe` as if nothing happened, elsewhere marked; how many.

    One whose holders go again and again is held no longer than any other.
    """
    rows = tx.rows("expired_deliveries", at=at, limit=_STEP)
    for pk, platform, account, attempts, created_at in rows:
        is_held_long = at - created_at > MAX_RETRY_TIME // timedelta(microseconds=1)
        gives_up = attempts > 1 and is_held_long
        tx.run(
            "doubt_delivery",
            pk=pk,
            at=at,
            state="parked" if gives_up else "pending",
            error=_BROKE_DOWN if gives_up else None,
            is_safe=int((platform, account) in safe),
        )
    return len(rows)


def next_due(tx: Tx, accounts: Sequence[tuple[str, str]]) -> Instant | None:
    """When the next delivery on these accounts is due."""
    found = [tx.find("next_delivery_due", platform=platform, account=account) for platform, account in accounts]
    due = [row[0] for row in found if row is not None and row[0] is not None]
    return Instant(min(due)) if due else None


def is_pending_at(tx: Tx, digest: bytes, lane: str) -> bool:
    """Whether anything at an address waits to be answered, is being answered, or is to be sent."""
    return tx.find("pending_at", digest=digest, lane=lane) is not None


def is_pending_on(tx: Tx, platform: str) -> bool:
    """Whether anything on a platform waits for an answer, is being answered, or is to be sent."""
    return tx.find("pending_on", platform=platform) is not None


def list_page(tx: Tx, state: str | None = None, *, before: int = NO_LIMIT, limit: int = 50) -> list[DeliverySummary]:
    """What is known of deliveries, newest first."""
    return [_line(row) for row in tx.rows("list_deliveries", state=state, before=before, limit=limit)]


def list_for_person(tx: Tx, person: str, *, after: int, limit: int) -> list[DeliverySummary]:
    """What is known of deliveries to a person, oldest first."""
    return [_line(row) for row in tx.rows("deliveries_to", person=person, after=after, limit=limit)]


def list_of_turn(tx: Tx, turn_pk: int) -> list[DeliverySummary]:
    """What a turn had to say, and what became of it."""
    return [_line(row) for row in tx.rows("deliveries_of", turn_pk=turn_pk)]


def retry(tx: Tx, at: Instant, pk: int) -> None:
    """A parked delivery is tried again, with a new ten minutes; `UnknownDelivery` if it is not parked."""
    if not tx.run("retry_delivery", pk=pk, at=at):
        raise UnknownDelivery(f"no parked delivery is number {pk}; `threadline outbox list` shows those there are")


def drop(tx: Tx, pk: int) -> None:
    """A parked or waiting delivery is not sent any more."""
    if not tx.run("drop_delivery", pk=pk):
        raise UnknownDelivery(
            f"no delivery number {pk} waits or is parked; `threadline outbox list` shows those there are"
        )


def link(tx: Tx, session_id: str, external_id: str, number: int) -> None:
    """Notes under which id a message of ours stands in the chat: a thread may hang on it."""
    pk = records.get_session(tx, session_id).pk
    tx.run("add_external", session_pk=pk, external_id=external_id, number=number)


def _taken(tx: Tx, at: Instant, rows: Sequence[Row], *, owner: str, lease: int) -> list[Delivery]:
    return [_delivery(row) for row in rows if tx.run("mark_sending", pk=row[0], owner=owner, lease=lease, at=at)]


def _held(delivery: Delivery, owner: str) -> dict[str, object]:
    return {"pk": delivery.pk, "attempts": delivery.attempts, "owner": owner}


def _place(new: NewDelivery) -> dict[str, object]:
    return {
        "delivery_id": new.delivery_id,
        "lane": new.target.ordering_key,
        "platform": new.target.platform,
        "account": new.target.account,
        "target": json_text(new.target),
        "session_pk": new.session_pk,
        "turn_pk": new.turn_pk,
        "reply_to": new.reply_to,
        "person": new.person,
    }


def _delivery(row: Row) -> Delivery:
    pk, delivery_id, target, text, reply_to, external_id, doubtful, attempts, created_at, session_pk, turn_pk = row[:11]
    return Delivery(
        pk=pk,
        delivery_id=delivery_id,
        target=read_target(target),
        text=text,
        reply_to=reply_to,
        external_id=external_id,
        is_doubtful=bool(doubtful),
        attempts=attempts + 1,
        created_at=Instant(created_at),
        session_pk=session_pk,
        turn_pk=turn_pk,
        kind=row[11],
        buttons=_decode_buttons(row[12]),
        files=_read_files(row[13]),
    )


def _line(row: Row) -> DeliverySummary:
    pk, delivery_id, target, kind, state, doubtful, attempts, created_at, _, sent_at, external_id, error, text = row[
        :13
    ]
    return DeliverySummary(
        pk=pk,
        delivery_id=delivery_id,
        target=read_target(target),
        kind=kind,
        state=state,
        is_doubtful=bool(doubtful),
        attempts=attempts,
        created_at=from_instant(created_at).isoformat(),
        sent_at=None if sent_at is None else from_instant(sent_at).isoformat(),
        external_id=external_id,
        error=error,
        text=text,
        files=tuple(file.name for file in _read_files(row[13])),
        asked=row[14],
    )


def _read_files(kept: str) -> tuple[Attachment, ...]:
    return () if kept == _NO_FILES else _decode_files(kept)


_decode_buttons = msgspec.json.Decoder(tuple[Button, ...]).decode
_decode_files = msgspec.json.Decoder(tuple[Attachment, ...]).decode
read_target = msgspec.json.Decoder(Target).decode


class Outbox(Group[Mode]):
    """What is to be sent: deliveries and streamed messages."""

    enqueue = writes_now(enqueue)
    claim = writes_now(claim)
    mark_sent = writes_now(sent)
    forget_external_id = writes(forget_message)
    mark_failed = writes(failed)
    open_stream = writes_now(open_stream)
    cancel_stream_start = writes(stream_not_begun)
    save_stream_id = writes(keep_stream_id)
    recover_expired = writes_now(recover)
    list_page = reads(list_page)
    has_pending_on = reads(is_pending_on)
    retry = writes_now(retry)
    drop = writes(drop)

    @verb
    def has_pending_at(store: Store[Any], source: SessionSource, *, agent: str | None = None) -> Step[bool]:
        """Whether anything of a conversation is not finished."""
        digest = store.address_of(source, agent).digest
        return read(is_pending_at, digest, target_of(source).ordering_key)
