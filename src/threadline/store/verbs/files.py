"""Verbs on files that come and go with messages."""

from __future__ import annotations

from datetime import timedelta

from threadline.errors import InvalidRequest
from threadline.model.files import MAX_FILE_BYTES, StoredFile, file_id_of
from threadline.model.inbound import storable_text
from threadline.model.source import SessionSource
from threadline.store.conversations import files
from threadline.store.engine.database import Plan, read, write
from threadline.store.leases import Held
from threadline.store.verbs.arguments import moment_before, person_named
from threadline.store.verbs.base import VerbsBase

MAX_NAME_BYTES = 512
# Longer than any message waits before its turn has ended.
_UNSENT_FOR = timedelta(days=7)


class FileVerbs(VerbsBase):
    """Keeping and reading files."""

    def keep_file(
        self, person: SessionSource | str, body: bytes, *, name: str = "", mime: str = ""
    ) -> Plan[StoredFile]:
        """Keeps a file that a person sends; the same content again is the same file. It goes with the last message that shows it.

        One that is larger than 10 MB, or empty, is `InvalidRequest`. One that comes with no message is dropped after a week.
        """
        return (yield from write(files.keep, self._now(), _checked(body, name, mime, _sender(person))))

    def keep_file_of_turn(self, held: Held, body: bytes, *, name: str = "", mime: str = "") -> Plan[StoredFile]:
        """Keeps a file that a turn sends, in the name of the person whom it answers; else as `keep_file` does.

        `LeaseLost` where the turn is another's now, or gone.
        """
        new = _checked(body, name, mime)
        return (yield from write(files.keep_for_turn, self._now(), held.turn_pk, held.fence, new))

    def find_file(self, person: SessionSource | str, file_id: str) -> Plan[StoredFile]:
        """A file that this person sent; `UnknownFile` for any other."""
        return (yield from read(files.of_person, _sender(person), storable_text(file_id, MAX_NAME_BYTES)))

    def read_file(self, person: SessionSource | str, file_id: str) -> Plan[tuple[StoredFile, bytes]]:
        """A file that this person sent, with what is in it; `UnknownFile` for any other."""
        return (yield from read(files.read_of_person, _sender(person), storable_text(file_id, MAX_NAME_BYTES)))

    def file_body(self, file_id: str) -> Plan[bytes]:
        """What is in a file, whoever sent it: for the agent that answers the message."""
        return (yield from read(files.body_of, file_id))

    def drop_unsent_files(self) -> Plan[int]:
        """Drops files that were kept a week ago and came with no message; how many."""
        done = 0
        before = moment_before(self._settings.clock.now(), _UNSENT_FOR)
        while step := (yield from write(files.drop_unsent, before=before)):
            done += step
        return done


def _checked(body: bytes, name: str, mime: str, person: str = "") -> files.NewFile:
    if not body:
        raise InvalidRequest("the file is empty; nothing was kept")
    if len(body) > MAX_FILE_BYTES:
        raise InvalidRequest(
            f"the file is larger than {MAX_FILE_BYTES // 1_000_000} MB; send a smaller one, or a link to it"
        )
    return files.NewFile(
        person=person,
        digest=file_id_of(body),
        name=storable_text(name, MAX_NAME_BYTES) or "file",
        mime=storable_text(mime, MAX_NAME_BYTES) or "application/octet-stream",
        body=bytes(body),
    )


def _sender(person: SessionSource | str) -> str:
    name = person_named(person)
    if name is None:
        raise InvalidRequest("say whose file it is: a name such as telegram:7")
    return name
