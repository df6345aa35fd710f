"""The storage contract: what a database engine has to keep, as classes of tests that ask no engine's name.

An engine's author imports the fixtures, provides three more, and subclasses what is to run:

    from threadline.testing.contracts.storage import TranscriptContract
    from threadline.testing.contracts.storage.fixtures import client, clock, open_store, store

    @pytest.fixture
    def location() -> str: ...                        # a fresh, empty database for each test

    @pytest.fixture
    def raw_execute() -> Callable[[str], None]: ...   # runs SQL behind the store's back and commits it

    @pytest.fixture
    def stored_bytes() -> Callable[[], bytes]: ...    # all that the database's files hold

    class TestTranscripts(TranscriptContract): ...

`compare_with_oracle` in `stateful` drives all verbs at random beside a toy store in memory.
"""

from threadline.testing.contracts.storage.authorship import AuthorshipContract
from threadline.testing.contracts.storage.bad_input import BadInputContract
from threadline.testing.contracts.storage.care import CareContract, ForkedContract
from threadline.testing.contracts.storage.concurrency import AwaitedContract, ConcurrencyContract
from threadline.testing.contracts.storage.disclosure import DisclosureContract, DisclosurePagesContract
from threadline.testing.contracts.storage.erasure import ErasePersonContract, ErasureContract, PruneContract
from threadline.testing.contracts.storage.failures import FailureContract
from threadline.testing.contracts.storage.finding import FilterContract, FindingContract, ViewerContract
from threadline.testing.contracts.storage.languages import LanguageContract
from threadline.testing.contracts.storage.listing import ListingContract
from threadline.testing.contracts.storage.resets import BusyContract, NoticeContract, ResetContract
from threadline.testing.contracts.storage.seeding import SeedingContract
from threadline.testing.contracts.storage.sessions import SessionContract, TitleContract
from threadline.testing.contracts.storage.switching import SwitchingContract
from threadline.testing.contracts.storage.transcripts import IdempotencyContract, TranscriptContract
from threadline.testing.contracts.storage.usage import UsageContract
from threadline.testing.contracts.storage.views import ForkContract, RewriteContract, UndoContract

__all__ = [
    "AuthorshipContract",
    "AwaitedContract",
    "BadInputContract",
    "BusyContract",
    "CareContract",
    "ConcurrencyContract",
    "DisclosureContract",
    "DisclosurePagesContract",
    "ErasePersonContract",
    "ErasureContract",
    "FailureContract",
    "FilterContract",
    "FindingContract",
    "ForkContract",
    "ForkedContract",
    "IdempotencyContract",
    "LanguageContract",
    "ListingContract",
    "NoticeContract",
    "PruneContract",
    "ResetContract",
    "RewriteContract",
    "SeedingContract",
    "SessionContract",
    "SwitchingContract",
    "TitleContract",
    "TranscriptContract",
    "UndoContract",
    "UsageContract",
    "ViewerContract",
]
