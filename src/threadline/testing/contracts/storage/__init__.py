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
"""

from threadline.testing.contracts.storage.bad_input import BadInputContract
from threadline.testing.contracts.storage.care import CareContract
from threadline.testing.contracts.storage.concurrency import ConcurrencyContract
from threadline.testing.contracts.storage.erasure import ErasureContract
from threadline.testing.contracts.storage.failures import FailureContract
from threadline.testing.contracts.storage.finding import FindingContract
from threadline.testing.contracts.storage.languages import LanguageContract
from threadline.testing.contracts.storage.listing import ListingContract
from threadline.testing.contracts.storage.resets import ResetContract
from threadline.testing.contracts.storage.seeding import SeedingContract
from threadline.testing.contracts.storage.sessions import SessionContract, TitleContract
from threadline.testing.contracts.storage.switching import SwitchingContract
from threadline.testing.contracts.storage.transcripts import TranscriptContract
from threadline.testing.contracts.storage.usage import UsageContract
from threadline.testing.contracts.storage.views import ViewContract

__all__ = [
    "BadInputContract",
    "CareContract",
    "ConcurrencyContract",
    "ErasureContract",
    "FailureContract",
    "FindingContract",
    "LanguageContract",
    "ListingContract",
    "ResetContract",
    "SeedingContract",
    "SessionContract",
    "SwitchingContract",
    "TitleContract",
    "TranscriptContract",
    "UsageContract",
    "ViewContract",
]
