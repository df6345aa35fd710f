"""A store file in a folder that another program may have used before: what is there is taken in, and stays as it is."""

from __future__ import annotations

import errno
import glob
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from threadline.local_user import DATABASE_NAME
from threadline.model.address import SessionAddress, SessionScope, dm_of_thread
from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.store.conversations import adoptions
from threadline.store.conversations.search import SearchPage
from threadline.store.engine.database import Progress, Tx
from threadline.store.facade import ComposableStore, OpenedAtFirstUse, SessionStore
from threadline.store.people.person_export import PersonRecord
from threadline.store.rows import Page, entry_of
from threadline.transfer.adoption import AdoptionReport, FolderAdoption, checked_id
from threadline.transfer.hermes import HermesFolder


class Erased(msgspec.Struct, frozen=True):
    """How much an erase removed, and the old files that still hold the person's words: delete those by hand."""

    count: int
    files: list[Path]


class AdoptedFolder(OpenedAtFirstUse):
    """A store file in a folder. Search, export and erase cover what older files hold, too."""

    def __init__(self, folder: Path, key_of: Callable[[SessionAddress], str], database: Path | None = None) -> None:
        """`key_of` spells the key of a conversation. The store file lies in the folder unless `database` names another."""
        super().__init__(folder / DATABASE_NAME if database is None else database)
        self._folder = HermesFolder(folder)
        self._key_of = key_of

    @property
    def adoption(self) -> FolderAdoption:
        """What takes older files of the folder in."""
        return self._adoption_into(self.core)

    def adopt_all(self, progress: Progress | None = None) -> AdoptionReport:
        """Take in every session and transcript of the folder now, instead of each at its first use."""
        return self.adoption.adopt_all(progress)

    def adopt_parent(self, address: SessionAddress) -> None:
        """Take in the transcript of the DM that a thread hangs in: a new thread starts with what was said there before."""
        parent = dm_of_thread(address)
        if parent is not None and (session_id := self.core.run_read(_current_id, parent)) is not None:
            self.adoption.adopt_session(session_id)

    def search(self, query: str, **options: Any) -> SearchPage:
        """Search what was said in the folder's sessions; the options are those of `threadline.SessionStore.search`."""
        self.adopt_all()
        return self.core.search(query, **options)

    def export(self, person: str, **options: Any) -> Page[PersonRecord]:
        """A page of all that is known of a person, such as `telegram:7`."""
        self.adopt_all()
        return self.core.export(person, **options)

    def fork_session(self, session_id: str, **options: Any) -> SessionEntry:
        """Fork a session with all that was said in it; the options are those of `threadline.SessionStore.fork_session`."""
        self.adoption.adopt_session(checked_id(session_id))
        return self.core.fork_session(session_id, **options)

    def erase_person(self, person: str) -> Erased:
        """Remove all that a person wrote, our exports of it too. Old files stay as they are, and are named."""
        self.adopt_all()
        theirs = self.core.run_read(adoptions.session_ids_owned_by, person)
        exports = [path for session_id in theirs for path in self._exports_of(session_id)]
        old_ids = [*theirs, *self.adoption.ids_of(person)]
        old = dict.fromkeys(path for session_id in old_ids for path in self._folder.files_of(session_id))
        # Before the sessions: where this breaks off, nobody could tell any more whose exports they were.
        _delete_exports(exports)
        count = self.core.erase_person(person)
        # Another process may have written one meanwhile.
        _delete_exports(exports)
        return Erased(count, [path for path in old if path.exists()])

    def write_export(self, session_id: str, messages: Sequence[Message]) -> Path:
        """Write a session's transcript as JSONL and return the path; of an unknown session only the path."""
        path = self._export_path(session_id)
        if self.core.run_read(adoptions.find_entry, session_id) is not None:
            if path.parent == self._path.parent:
                # Marked first: a file of ours that is not marked would be taken in one day.
                self.core.run_write(adoptions.mark_exported, session_id)
            _write_lines(path, messages)
        return path

    def close(self) -> None:
        """Release the file. The next call opens it again."""
        super().close()
        self._folder.close()

    def _begin(self, opened: ComposableStore) -> None:
        self._adoption_into(opened).adopt_index()

    def _adoption_into(self, store: ComposableStore) -> FolderAdoption:
        return FolderAdoption(self._folder, store, self._scope(), self._key_of)

    def _scope(self) -> SessionScope:
        """Who shares a session."""
        return SessionScope()

    def _export_path(self, session_id: str) -> Path:
        """Where a transcript is exported to: below `exports` where a file that is not ours has its name."""
        path = self._path.parent / f"{checked_id(session_id)}.jsonl"
        is_ours = self.core.run_read(adoptions.adoption_state, session_id) == adoptions.EXPORTED
        return path if is_ours or not os.path.lexists(path) else self._exports() / path.name

    def _exports(self) -> Path:
        """The folder of exports that can't lie beside the old files."""
        exports = self._path.parent / "exports"
        if exports.is_symlink():
            raise NotADirectoryError(
                errno.ENOTDIR, "exports are kept in a folder, not in a link; delete it", str(exports)
            )
        return exports

    def _exports_of(self, session_id: str) -> list[Path]:
        """Where exports of a session may lie: an old file may have had its name, and be gone by now."""
        apart = self._exports() / f"{session_id}.jsonl"
        return [apart, *({self._export_path(session_id)} - {apart})]


def survey(folder: Path, key_of: Callable[[SessionAddress], str], progress: Progress | None = None) -> AdoptionReport:
    """What would be taken in from a folder: it is taken into a copy of the store, which is deleted then."""
    with tempfile.TemporaryDirectory(prefix="threadline-") as place:
        copy = Path(place) / DATABASE_NAME
        if (folder / DATABASE_NAME).exists():
            with SessionStore.open(folder / DATABASE_NAME, migrate=False) as store:
                store.backup(copy)
        with AdoptedFolder(folder, key_of, copy) as adopted:
            return adopted.adopt_all(progress)


def _current_id(tx: Tx, address: SessionAddress) -> str | None:
    row = tx.find("peek_current", digest=address.digest)
    return None if row is None else entry_of(row).session_id


def _delete_exports(paths: Sequence[Path]) -> None:
    """Delete exports, and what was left of one whose writing broke off."""
    for path in paths:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
            left.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _write_lines(path: Path, messages: Sequence[Message]) -> None:
    """Write messages as JSONL, for their owner alone; a reader sees the file as it was or all of the new one."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.writelines(json.dumps(message, ensure_ascii=False) + "\n" for message in messages)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
