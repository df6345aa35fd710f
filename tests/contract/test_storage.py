"""The storage contract on every engine; what a client could get wrong, on both clients."""

from __future__ import annotations

import pytest

from threadline import AsyncSessionStore, SessionStore
from threadline.store.verbs import Verb
from threadline.testing.contracts import storage
from threadline.testing.contracts.storage.care import VERBS

both_clients = pytest.mark.parametrize("client", ["blocking", "awaited"])


@both_clients
class TestSessions(storage.SessionContract): ...


@both_clients
class TestTitles(storage.TitleContract): ...


@both_clients
class TestResets(storage.ResetContract): ...


@both_clients
class TestBusyVotes(storage.BusyContract): ...


@both_clients
class TestNotices(storage.NoticeContract): ...


@both_clients
class TestSeeding(storage.SeedingContract): ...


@both_clients
class TestSwitching(storage.SwitchingContract): ...


@both_clients
class TestListing(storage.ListingContract): ...


@both_clients
class TestTranscripts(storage.TranscriptContract): ...


@both_clients
class TestIdempotency(storage.IdempotencyContract): ...


@both_clients
class TestUndo(storage.UndoContract): ...


@both_clients
class TestForks(storage.ForkContract): ...


@both_clients
class TestRewriting(storage.RewriteContract): ...


class TestAuthorship(storage.AuthorshipContract): ...


@both_clients
class TestUsage(storage.UsageContract): ...


@both_clients
class TestFinding(storage.FindingContract): ...


@both_clients
class TestErasure(storage.ErasureContract): ...


@both_clients
class TestDisclosure(storage.DisclosureContract): ...


@both_clients
class TestDisclosurePages(storage.DisclosurePagesContract): ...


@both_clients
class TestCare(storage.CareContract): ...


class TestViewers(storage.ViewerContract): ...


class TestFilters(storage.FilterContract): ...


class TestLanguages(storage.LanguageContract): ...


class TestPruning(storage.PruneContract): ...


class TestErasingPeople(storage.ErasePersonContract): ...


class TestFailures(storage.FailureContract): ...


class TestConcurrency(storage.ConcurrencyContract): ...


class TestForkedProcesses(storage.ForkedContract): ...


class TestAwaited(storage.AwaitedContract): ...


class TestBadInput(storage.BadInputContract): ...


@pytest.mark.parametrize("client", [SessionStore, AsyncSessionStore])
def test_no_verb_is_left_out(client: type) -> None:
    public = {name for name in dir(client) if isinstance(getattr(client, name), Verb)}
    assert public == VERBS.keys()


def test_no_contract_is_left_out() -> None:
    run = {base.__name__ for test in globals().values() if isinstance(test, type) for base in test.__bases__}
    assert set(storage.__all__) <= run
