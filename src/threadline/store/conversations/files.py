"""Files that come and go with messages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidRequest, LeaseLost, UnknownFile
from threadline.model.files import MAX_FILE_BYTES, StoredFile, file_id_of
from threadline.model.inbound import storable_text
from threadline.model.ownership import file_owner_of
from threadline.model.source import SessionSource
from threadline.store.engine.database import Perform, Step, Tx, read, task, write
from threadline.store.leases import TurnLease
from threadline.store.rows import source_of
from threadline.store.verbs import Group, Mode, Store, parse_age, person_name_of, reads, verb

_STEP = 100


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a person sends it, or gets it from the agent. `digest` is that of its body."""

    person: str
    digest: str
    name: str
    mime: str
    body: bytes


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a person sent, without its content."""

    file_id: str
    name: str
    mime: str
    size: int
    at: datetime


def keep(tx: Tx, at: Instant, new: FileContent) -> StoredFile:
    """Store a file, once whoever sends it; the last name that a person gave it is its name for them."""
    # Locked before it is named: the deletion of unused files reads the names only under the same lock.
    if tx.find("has_file", digest=new.digest) is None:
        tx.run("add_file", digest=new.digest, size=len(new.body), body=new.body)
    tx.run("name_file", person=new.person, digest=new.digest, name=new.name, mime=new.mime, at=at)
    return StoredFile(file_id=new.digest, name=new.name, mime=new.mime, size=len(new.body))


def keep_for_turn(tx: Tx, at: Instant, lease: TurnLease, new: FileContent) -> StoredFile:
    """Store a file that a turn sends, in the name of the person whom it answers. Raise `LeaseLost` where the lease is lost.

    The turn's own row tells the person: in the name of a person who was erased meanwhile nothing is stored.
    """
    row = tx.find("hold_turn", **lease.proof)
    if row is None:
        raise LeaseLost
    return keep(tx, at, replace(new, person=file_owner_of(source_of(row[0]))))


def find_owned(tx: Tx, person: str, file_id: str) -> StoredFile:
    """Return a file that this person sent; raise `UnknownFile` for any other."""
    row = tx.find("find_file_of", person=person, digest=file_id)
    if row is None:
        raise UnknownFile
    return StoredFile(file_id=file_id, name=row[0], mime=row[1], size=row[2])


def read_owned(tx: Tx, person: str, file_id: str) -> tuple[StoredFile, bytes]:
    """Return a file that this person sent, and its content; raise `UnknownFile` for any other."""
    return find_owned(tx, person, file_id), read_body(tx, file_id)


def read_body(tx: Tx, file_id: str) -> bytes:
    """Return the content of a file, whoever sent it: for the agent that answers the message."""
    row = tx.find("file_body", digest=file_id)
    if row is None:
        raise UnknownFile
    return bytes(row[0])


def link_files(tx: Tx, number: int, file_ids: Iterable[str]) -> None:
    """Link a message to the files that it shows: they stay as long as it does."""
    for file_id in file_ids:
        tx.run("use_file", number=number, digest=file_id)


def unlink_files(tx: Tx, lo: int, hi: int) -> None:
    """Unlink the messages from `lo` to `hi` from their files; delete the files that no other message shows."""
    digests = [digest for (digest,) in tx.rows("files_used_between", lo=lo, hi=hi)]
    if digests:
        tx.run("drop_file_uses", lo=lo, hi=hi)
        _delete_unused(tx, digests)


def delete_unsent_batch(tx: Tx, *, before: Instant) -> int:
    """Delete some files that were stored before then and never came with a message; return how many."""
    digests = [digest for (digest,) in tx.rows("unused_files", before=before, limit=_STEP)]
    _delete_unused(tx, digests)
    return len(digests)


def delete_person(tx: Tx, person: str) -> None:
    """Remove a person's name from their files; delete those that nobody else sent."""
    digests = [row[0] for row in tx.rows("files_of_person", person=person, after="", limit=1 << 40)]
    tx.run("drop_file_names_of", person=person)
    for digest in digests:
        _delete_nameless(tx, digest)


def records_of(tx: Tx, person: str, *, after: str, limit: int) -> list[FileRecord]:
    """Return the files that a person sent, in the order of their ids."""
    rows = tx.rows("files_of_person", person=person, after=after, limit=limit)
    return [
        FileRecord(file_id=digest, name=name, mime=mime, at=from_instant(at), size=size)
        for digest, name, mime, at, size in rows
    ]


def _delete_unused(tx: Tx, digests: Iterable[str]) -> None:
    for digest in digests:
        tx.find("has_file", digest=digest)
        tx.run("drop_unused_names", digest=digest)
        tx.run("drop_unused_file", digest=digest)


def _delete_nameless(tx: Tx, digest: str) -> None:
    tx.find("has_file", digest=digest)
    tx.run("drop_unused_file", digest=digest)


MAX_NAME_BYTES = 512
# Longer than any message waits before its turn has ended.
_UNSENT_LIFETIME = timedelta(days=7)


class Files(Group[Mode]):
    """Files that come and go with messages."""

    read_body = reads(read_body)

    @verb
    def keep(
        store: Store[Any], person: SessionSource | str, body: bytes, *, name: str = "", mime: str = ""
    ) -> Step[StoredFile]:
        """Store a file that a person sends; the same content again is the same file. It goes with the last message that shows it.

        A file that is larger than 10 MB, or empty, is `InvalidRequest`. A file that comes with no message is deleted after a week.
        """
        return write(keep, store.now(), _checked_content(body, name, mime, _sender_name(person)))

    @verb
    def keep_for_turn(
        store: Store[Any], lease: TurnLease, body: bytes, *, name: str = "", mime: str = ""
    ) -> Step[StoredFile]:
        """Store a file that a turn sends, in the name of the person whom it answers; else like `keep_file`.

        Raises `LeaseLost` where the turn is another worker's now, or deleted.
        """
        new = _checked_content(body, name, mime)
        return write(keep_for_turn, store.now(), lease, new)

    @verb
    def find(_: Store[Any], person: SessionSource | str, file_id: str) -> Step[StoredFile]:
        """Return a file that this person sent; raise `UnknownFile` for any other."""
        return read(find_owned, _sender_name(person), storable_text(file_id, MAX_NAME_BYTES))

    @verb
    def read(_: Store[Any], person: SessionSource | str, file_id: str) -> Step[tuple[StoredFile, bytes]]:
        """Return a file that this person sent, and its content; raise `UnknownFile` for any other."""
        return read(read_owned, _sender_name(person), storable_text(file_id, MAX_NAME_BYTES))

    @verb
    def delete_unsent(store: Store[Any]) -> Step[int]:
        """Delete files that were stored a week ago and came with no message; return how many."""
        return task(_delete_unsent, parse_age(store.clock.now(), _UNSENT_LIFETIME))


def _delete_unsent(perform: Perform, before: Instant) -> int:
    done = 0
    while step := perform(write(delete_unsent_batch, before=before)):
        done += step
    return done


def _checked_content(body: bytes, name: str, mime: str, person: str = "") -> FileContent:
    if not body:
        raise InvalidRequest("the file is empty; nothing was stored")
    if len(body) > MAX_FILE_BYTES:
        raise InvalidRequest(
            f"the file is larger than {MAX_FILE_BYTES // 1_000_000} MB; send a smaller one, or a link to it"
        )
    return FileContent(
        person=person,
        digest=file_id_of(body),
        name=storable_text(name, MAX_NAME_BYTES) or "file",
        mime=storable_text(mime, MAX_NAME_BYTES) or "application/octet-stream",
        body=bytes(body),
    )


def _sender_name(person: SessionSource | str) -> str:
    name = person_name_of(person)
    if name is None:
        raise InvalidRequest("say whose file it is: a name such as telegram:7")
    return name
