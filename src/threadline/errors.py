"""Everything Threadline raises on purpose.

    ThreadlineError
    ├── InvalidRequest            the call itself is wrong: fix the arguments; also a ValueError
    │   ├── InvalidMessage        a message that can't be kept as it is
    │   ├── InvalidSource         a source that can't be right (no such chat type, a platform that is no slug)
    │   └── InvalidCursor         a cursor that this listing did not hand out
    ├── UnknownSession            no session has that id or key
    ├── UnknownMessage            no message has that id
    ├── UnknownFile               no file of theirs has that id
    ├── NotYours                  it exists, but not for this viewer
    ├── NothingToUndo             no exchange is left to take back
    ├── NothingToRedo             nothing was undone, or something was said since
    ├── IdempotencyConflict       the key was used before with other content
    ├── UnknownDelivery           no delivery has that number, or it is past what was asked
    ├── ConversationBusy          something else goes on there: say it again when that is over
    ├── LeaseLost                 the turn is another worker's now
    ├── AlreadyServed             another gateway serves this database
    ├── ConfigError               the configuration can't be used: a line for each problem
    └── StoreError                the store, not the call
        ├── InvalidLocation       the store's URL can't be understood, or its extra is not installed
        ├── StoreClosed           used after close()
        ├── StoreForked           opened in a parent process
        ├── StoreUnavailable      the disk or the server does not answer now; what was acknowledged is kept
        │   └── StoreFull         no room left
        ├── StoreReadOnly         this store may be read only
        ├── StoreDamaged          the file is not a Threadline database, or it is broken
        ├── SchemaTooNew          a newer Threadline wrote it
        └── SchemaTooOld          it wants `threadline db migrate` first

Each message says what happened and what to do about it.
"""

from __future__ import annotations


class ThreadlineError(Exception):
    """Something went wrong in Threadline."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class InvalidRequest(ThreadlineError, ValueError):
    """The call can't be carried out as it was made. Nothing was changed."""


class InvalidMessage(InvalidRequest):
    """This message can't be kept as it is. Nothing was stored."""


class InvalidSource(InvalidRequest):
    """This does not describe where a message comes from."""


class InvalidCursor(InvalidRequest):
    """This cursor does not belong to this listing. Start again without a cursor."""


class UnknownSession(ThreadlineError):
    """No session has this id. `threadline sessions list --all` shows those there are."""


class UnknownMessage(ThreadlineError):
    """No message has this id. `threadline sessions show SESSION --ids` shows those there are."""


class UnknownFile(ThreadlineError):
    """There is no such file, or not any more: files go with the last message that they came with."""


class NotYours(ThreadlineError):
    """That session belongs to someone else, or to another chat. Nothing was changed."""


class NothingToUndo(ThreadlineError):
    """There is no exchange left to undo."""


class NothingToRedo(ThreadlineError):
    """There is nothing to redo: nothing was undone, or something was said since."""


class IdempotencyConflict(ThreadlineError):
    """This idempotency key was used before with other content. Use a new key for a new message."""


class ConfigError(ThreadlineError):
    """The configuration can't be used as it is. `threadline config check` says what is wrong and where."""


class UnknownDelivery(ThreadlineError):
    """No delivery has this number. `threadline outbox list` shows those there are."""


class ConversationBusy(ThreadlineError):
    """Something else goes on in this conversation. Nothing was taken; say it again when that is over."""


class LeaseLost(ThreadlineError):
    """This turn is another worker's now. Nothing was written; stop working on it."""


class AlreadyServed(ThreadlineError):
    """Another gateway serves this database. Stop that one first, or use another database with --db."""


class StoreError(ThreadlineError):
    """The store could not do what was asked of it."""


class InvalidLocation(StoreError):
    """This is not where a store can be. Use sqlite:///PATH or postgresql://USER@HOST/DATABASE."""


class StoreClosed(StoreError):
    """The store is closed. Open it again to go on."""


class StoreForked(StoreError):
    """This store was opened before fork(). Open one in each process."""


class StoreUnavailable(StoreError):
    """The store can't be reached now. What was acknowledged is kept; try again."""


class StoreFull(StoreUnavailable):
    """There is no room left for the store. Make room and try again; what was acknowledged is kept."""


class StoreReadOnly(StoreError):
    """This store can only be read. Check who owns the file and its folder, or open another place."""


class StoreDamaged(StoreError):
    """This is not a Threadline database, or it is damaged. Restore a backup, or choose another place."""


class SchemaTooNew(StoreError):
    """A newer Threadline wrote this database. Upgrade Threadline to open it; nothing was changed."""


class SchemaTooOld(StoreError):
    """This database needs `threadline db migrate` before it can be used."""
