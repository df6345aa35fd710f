"""Roles and pairing, on both engines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from tests.contract.gateways import OpenGateway, Run

from threadline.errors import InvalidRequest
from threadline.model.access import CODE_LETTERS, Role
from threadline.model.delivery import Target
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.store.people.people import (
    KnownPerson,
    PairedPerson,
    PairingCode,
    PairingLocked,
    PairingRefusal,
    UnknownPairing,
    UnknownPerson,
)
from threadline.testing import FakeClock, dm, group
from threadline.testing.contracts.storage.fixtures import StoredBytes

T = TypeVar("T")
WRONG = "ZZZZZZZZ"


async def _code(store: GatewayStore, source: SessionSource) -> str:
    asked = await store.people.request_pairing(source)
    assert isinstance(asked, PairingCode), asked
    return asked.code


async def _outcome(work: Coroutine[Any, Any, T]) -> T | type[Exception]:
    try:
        return await work
    except (UnknownPairing, PairingLocked) as error:
        return type(error)


async def _at_once(*works: Coroutine[Any, Any, T]) -> list[T | type[Exception]]:
    return list(await asyncio.gather(*(_outcome(work) for work in works)))


def _guess(gateway: GatewayStore, run: Run, times: int) -> list[object]:
    return [run(_outcome(gateway.people.approve_pairing(WRONG))) for _ in range(times)]


def test_a_role_is_kept_changed_and_forgotten(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    since = clock.now()
    assert run(gateway.people.find_role("telegram:7")) is None
    run(gateway.people.set_role("telegram:7", "guest", "Ada"))
    clock.advance(timedelta(days=1))
    run(gateway.people.set_role("telegram:7", "trusted"))
    assert run(gateway.people.find_role("telegram:7")) == "trusted"
    assert run(gateway.people.list_all()) == [KnownPerson(person="telegram:7", role="trusted", name="Ada", since=since)]
    assert run(gateway.people.remove_role("telegram:7")) is True
    assert run(gateway.people.remove_role("telegram:7")) is False
    assert run(gateway.people.find_role("telegram:7")) is None


def test_people_are_listed_in_the_order_of_their_coming(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    for person in ("telegram:9", "signal:7", "telegram:8"):
        run(gateway.people.set_role(person, "guest"))
        clock.advance(timedelta(minutes=1))
    assert [person.person for person in run(gateway.people.list_all())] == ["telegram:9", "signal:7", "telegram:8"]


@pytest.mark.parametrize(
    "name", ["", "telegram", "telegram:", ":7", "telegram:\x00", "telegram:\ud800", "x:" + "y" * 2000]
)
def test_a_name_that_names_nobody_is_refused(gateway: GatewayStore, run: Run, name: str) -> None:
    for asked in (gateway.people.find_role(name), gateway.people.set_role(name, "guest"), gateway.people.revoke(name)):
        with pytest.raises(InvalidRequest):
            run(asked)


@pytest.mark.parametrize("role", ["group", "king", ""])
def test_nobody_is_given_a_role_that_people_do_not_have(gateway: GatewayStore, run: Run, role: Any) -> None:
    with pytest.raises(InvalidRequest):
        run(gateway.people.set_role("telegram:7", role))
    code = run(_code(gateway, dm("7")))
    with pytest.raises(InvalidRequest):
        run(gateway.people.approve_pairing(code, role))
    assert run(gateway.people.list_all()) == []


def test_a_person_is_found_however_their_name_is_written(gateway: GatewayStore, run: Run) -> None:
    source = dm("@ada:example.org", platform="matrix")
    run(gateway.people.approve_pairing(run(_code(gateway, source))))
    assert run(gateway.people.find_role("matrix:@ada:example.org")) == "guest"
    assert run(gateway.people.find_role("matrix:@ada%3Aexample.org")) == "guest"
    run(gateway.people.revoke("matrix:@ada:example.org"))
    assert run(gateway.people.list_all()) == []


def test_a_code_is_eight_clear_letters_and_stands_nowhere(
    gateway: GatewayStore, run: Run, stored_bytes: StoredBytes
) -> None:
    code = run(_code(gateway, dm("7", user_name="Ada")))
    assert len(code) == 8
    assert set(code) <= set(CODE_LETTERS)
    assert b"telegram:7" in stored_bytes()
    assert code.encode() not in stored_bytes()


def test_two_codes_are_never_the_same(gateway: GatewayStore, run: Run) -> None:
    assert run(_code(gateway, dm("7"))) != run(_code(gateway, dm("8")))


def test_who_waits_is_listed_until_the_code_ends(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    asked_at = clock.now()
    run(_code(gateway, dm("7", user_name="Ada\x1b[31m\nLovelace" + "!" * 500, account="work")))
    (waiting,) = run(gateway.people.list_pairings())
    assert (waiting.platform, waiting.account, waiting.person) == ("telegram", "work", "telegram@work:7")
    assert waiting.name is not None
    assert waiting.name.startswith("Ada[31m Lovelace!")
    assert len(waiting.name) == 120
    assert (waiting.asked_at, waiting.expires_at) == (asked_at, asked_at + timedelta(hours=1))
    clock.advance(timedelta(hours=1) - timedelta(microseconds=1))
    assert len(run(gateway.people.list_pairings())) == 1
    clock.advance(timedelta(microseconds=1))
    assert run(gateway.people.list_pairings()) == []


@pytest.mark.parametrize("role", ["guest", "trusted", "owner"])
def test_an_approval_gives_the_role_tells_them_and_ends_the_request(
    gateway: GatewayStore, run: Run, role: Role
) -> None:
    source = dm("7", user_name="Ada", thread="t1", account="work")
    code = run(_code(gateway, source))
    paired = run(gateway.people.approve_pairing(code, role))
    assert paired == PairedPerson(person="telegram@work:7", role=role, name="Ada")
    assert run(gateway.people.find_role("telegram@work:7")) == role
    assert [person.name for person in run(gateway.people.list_all())] == ["Ada"]
    assert run(gateway.people.list_pairings()) == []
    (told,) = run(gateway.outbox.list_page())
    assert told.target == Target(platform="telegram", account="work", chat_id="dm-7", thread_id="t1")
    assert told.state == "pending"
    assert "/help" in told.text


def test_without_a_word_on_the_role_it_is_guest(gateway: GatewayStore, run: Run) -> None:
    assert run(gateway.people.approve_pairing(run(_code(gateway, dm("7"))))).role == "guest"


def test_a_code_may_be_typed_in_small_letters_and_groups(gateway: GatewayStore, run: Run) -> None:
    code = run(_code(gateway, dm("7"))).lower()
    assert run(gateway.people.approve_pairing(f" {code[:4]}-{code[4:]} ")).person == "telegram:7"


def test_a_code_lets_in_the_one_who_has_it_alone(gateway: GatewayStore, run: Run) -> None:
    run(_code(gateway, dm("7")))
    code = run(_code(gateway, dm("8")))
    run(_code(gateway, dm("9")))
    assert run(gateway.people.approve_pairing(code)).person == "telegram:8"
    assert [pairing.person for pairing in run(gateway.people.list_pairings())] == ["telegram:7", "telegram:9"]
    with pytest.raises(UnknownPairing):
        run(gateway.people.approve_pairing(code))


def test_a_request_may_be_approved_by_its_number(gateway: GatewayStore, run: Run) -> None:
    run(_code(gateway, dm("7")))
    run(_code(gateway, dm("8")))
    number = run(gateway.people.list_pairings())[1].number
    assert run(gateway.people.approve_pairing(number)).person == "telegram:8"
    number = run(gateway.people.list_pairings())[0].number
    assert run(gateway.people.approve_pairing(str(number))).person == "telegram:7"


@pytest.mark.parametrize("nothing", ["", "   ", "-", "\x00", "A" * 1000])
def test_what_is_no_code_at_all_is_refused_and_not_counted(gateway: GatewayStore, run: Run, nothing: str) -> None:
    for _ in range(6):
        with pytest.raises(InvalidRequest):
            run(gateway.people.approve_pairing(nothing))
    assert run(gateway.people.pairing_locked_until()) is None


def test_a_code_that_has_ended_lets_nobody_in(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    code = run(_code(gateway, dm("7")))
    number = run(gateway.people.list_pairings())[0].number
    clock.advance(timedelta(hours=1))
    for ended in (code, number):
        with pytest.raises(UnknownPairing):
            run(gateway.people.approve_pairing(ended))
    assert run(gateway.people.list_all()) == []
    assert run(gateway.outbox.list_page()) == []


def test_somebody_asks_once_in_ten_minutes(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    first = run(_code(gateway, dm("7")))
    clock.advance(timedelta(minutes=10) - timedelta(microseconds=1))
    assert run(gateway.people.request_pairing(dm("7"))) == PairingRefusal("too soon")
    clock.advance(timedelta(microseconds=1))
    second = run(_code(gateway, dm("7", user_name="Ada")))
    assert [pairing.name for pairing in run(gateway.people.list_pairings())] == ["Ada"]
    with pytest.raises(UnknownPairing):
        run(gateway.people.approve_pairing(first))
    assert run(gateway.people.approve_pairing(second)).person == "telegram:7"


def test_three_wait_on_a_platform_at_most(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    codes = [run(_code(gateway, dm(person))) for person in ("7", "8")]
    run(_code(gateway, dm("9", account="work")))
    assert run(gateway.people.request_pairing(dm("10"))) == PairingRefusal("too many")
    run(_code(gateway, dm("10", platform="signal")))
    run(gateway.people.approve_pairing(codes[0]))
    run(_code(gateway, dm("10")))
    assert run(gateway.people.request_pairing(dm("11"))) == PairingRefusal("too many")
    # Who waits already does not stand in their own way.
    clock.advance(timedelta(minutes=10))
    run(_code(gateway, dm("8")))
    clock.advance(timedelta(minutes=50))
    run(_code(gateway, dm("11")))
    assert [pairing.person for pairing in run(gateway.people.list_pairings())] == ["telegram:8", "telegram:11"]


def test_who_asks_anew_after_an_hour_stands_at_the_end(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    for person in ("7", "8", "7"):
        run(_code(gateway, dm(person)))
        clock.advance(timedelta(minutes=30))
    clock.advance(timedelta(minutes=-30))
    assert [pairing.person for pairing in run(gateway.people.list_pairings())] == ["telegram:8", "telegram:7"]


@pytest.mark.parametrize("source", [group("7"), dm("", chat_id=None), SessionSource(platform="web")])
def test_only_somebody_in_a_direct_chat_can_ask(gateway: GatewayStore, run: Run, source: SessionSource) -> None:
    with pytest.raises(InvalidRequest):
        run(gateway.people.request_pairing(source))
    assert run(gateway.people.list_pairings()) == []


def test_five_wrong_codes_lock_pairing_for_an_hour(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    code = run(_code(gateway, dm("7")))
    number = run(gateway.people.list_pairings())[0].number
    assert _guess(gateway, run, 5) == [UnknownPairing] * 4 + [PairingLocked]
    assert run(gateway.people.pairing_locked_until()) == clock.now() + timedelta(hours=1)
    for right in (code, number):
        with pytest.raises(PairingLocked):
            run(gateway.people.approve_pairing(right))
    assert run(gateway.people.request_pairing(dm("8"))) == PairingRefusal("locked")
    assert run(gateway.people.list_all()) == []
    clock.advance(timedelta(hours=1))
    assert run(gateway.people.pairing_locked_until()) is None
    assert run(gateway.people.approve_pairing(run(_code(gateway, dm("8"))))).person == "telegram:8"


def test_a_lock_is_known_to_other_gateways_and_survives_a_restart(
    gateway: GatewayStore, open_gateway: OpenGateway, run: Run
) -> None:
    code = run(_code(gateway, dm("7")))
    _guess(gateway, run, 3)
    run(gateway.close())
    other = open_gateway()
    assert _guess(other, run, 2) == [UnknownPairing, PairingLocked]
    run(other.close())
    with pytest.raises(PairingLocked):
        run(open_gateway().people.approve_pairing(code))


def test_a_right_code_among_four_wrong_ones_is_approved(gateway: GatewayStore, run: Run) -> None:
    code = run(_code(gateway, dm("7")))
    assert _guess(gateway, run, 4) == [UnknownPairing] * 4
    assert run(gateway.people.approve_pairing(code)).person == "telegram:7"
    assert _guess(gateway, run, 1) == [PairingLocked]


def test_a_wrong_number_is_no_guess(gateway: GatewayStore, run: Run) -> None:
    code = run(_code(gateway, dm("7")))
    for number in (0, -1, 10**30, "999999", "9" * 400):
        for _ in range(2):
            with pytest.raises(UnknownPairing):
                run(gateway.people.approve_pairing(number))
    assert run(gateway.people.approve_pairing(code)).person == "telegram:7"


def test_a_wrong_code_says_how_many_are_left(gateway: GatewayStore, run: Run) -> None:
    with pytest.raises(UnknownPairing, match="4 more"):
        run(gateway.people.approve_pairing(WRONG))


def test_to_revoke_takes_the_role_or_the_request(gateway: GatewayStore, run: Run) -> None:
    run(gateway.people.approve_pairing(run(_code(gateway, dm("7")))))
    code = run(_code(gateway, dm("8")))
    run(gateway.people.revoke("telegram:7"))
    run(gateway.people.revoke("telegram:8"))
    assert run(gateway.people.list_all()) == []
    assert run(gateway.people.list_pairings()) == []
    with pytest.raises(UnknownPairing):
        run(gateway.people.approve_pairing(code))
    with pytest.raises(UnknownPerson):
        run(gateway.people.revoke("telegram:7"))


def test_two_gateways_that_approve_one_code_let_somebody_in_once(open_gateway: OpenGateway, run: Run) -> None:
    one, two = open_gateway(), open_gateway()
    # Who comes second finds nobody: a wrong code. Five of those would lock.
    for person in range(4):
        code = run(_code(one, dm(str(person))))
        outcomes = run(_at_once(one.people.approve_pairing(code), two.people.approve_pairing(code)))
        assert outcomes.count(UnknownPairing) == 1
        assert outcomes.count(PairedPerson(person=f"telegram:{person}", role="guest", name=None)) == 1
        assert len(run(one.outbox.list_page())) == person + 1


def test_many_strangers_at_once_never_wait_in_more_than_three_places(open_gateway: OpenGateway, run: Run) -> None:
    stores = [open_gateway(), open_gateway()]
    asked = run(_at_once(*(stores[n % 2].people.request_pairing(dm(str(n))) for n in range(12))))
    assert sum(isinstance(outcome, PairingCode) for outcome in asked) == 3
    assert len(run(stores[0].people.list_pairings())) == 3


def test_one_stranger_who_writes_many_times_at_once_gets_one_code(open_gateway: OpenGateway, run: Run) -> None:
    stores = [open_gateway(), open_gateway()]
    asked = run(_at_once(*(stores[n % 2].people.request_pairing(dm("7")) for n in range(8))))
    codes = [outcome.code for outcome in asked if isinstance(outcome, PairingCode)]
    assert len(codes) == 1
    assert run(stores[0].people.approve_pairing(codes[0])).person == "telegram:7"


def test_wrong_codes_at_once_are_all_counted(open_gateway: OpenGateway, run: Run) -> None:
    stores = [open_gateway(), open_gateway()]
    outcomes = run(_at_once(*(stores[n % 2].people.approve_pairing(WRONG) for n in range(8))))
    assert outcomes.count(UnknownPairing) == 4
    assert outcomes.count(PairingLocked) == 4


def test_all_who_share_a_database_share_its_secret(open_gateway: OpenGateway, run: Run) -> None:
    stores = [open_gateway() for _ in range(3)]
    found = run(_at_once(*(store.people.installation_secret() for store in stores)))
    assert len(set(found)) == 1
    assert isinstance(found[0], bytes)
    assert len(found[0]) == 32
    assert run(open_gateway().people.installation_secret()) == found[0]
