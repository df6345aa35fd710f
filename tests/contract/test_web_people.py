"""People of the web page, on both engines: links that let somebody in once, and logins that last while they are used."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TypeVar

import pytest
from tests.contract.gateways import OpenGateway, Run

from threadline.errors import InvalidRequest
from threadline.store.facade import GatewayStore
from threadline.store.people.people import UnknownPerson
from threadline.store.people.web_access import MAX_LOGINS, OWNER, WebLogin, digest_of, user_id_of
from threadline.testing import FakeClock
from threadline.testing.contracts.storage.fixtures import RawExecute, StoredBytes

T = TypeVar("T")
COOKIE = digest_of("a cookie")
OTHER = digest_of("another cookie")


async def join(store: GatewayStore, name: str, cookie: bytes = COOKIE) -> WebLogin:
    """Somebody is invited and comes."""
    made = await store.web_access.invite(name)
    login = await store.web_access.redeem(made.code, cookie)
    assert login is not None
    return login


def require_no_rows(raw_execute: RawExecute, table: str) -> None:
    """Fails where the table holds something: then there is a row to insert, which no engine takes."""
    raw_execute(f"INSERT INTO meta (name, value) SELECT 'filled', NULL WHERE EXISTS (SELECT 1 FROM {table})")


def test_a_link_lets_its_person_in(gateway: GatewayStore, run: Run) -> None:
    made = run(gateway.web_access.invite("Ada"))
    login = run(gateway.web_access.redeem(made.code, COOKIE))
    assert login is not None
    assert (login.name, login.role) == ("Ada", "guest")
    assert re.fullmatch(r"web:u[a-z0-9]{12}", login.person)
    assert run(gateway.web_access.find_login(COOKIE)) == login
    assert run(gateway.people.find_role(login.person)) == "guest"


def test_a_link_works_once(gateway: GatewayStore, run: Run) -> None:
    made = run(gateway.web_access.invite("Ada"))
    assert run(gateway.web_access.redeem(made.code, COOKIE)) is not None
    assert run(gateway.web_access.redeem(made.code, OTHER)) is None
    assert run(gateway.web_access.find_login(OTHER)) is None
    assert len(run(gateway.web_access.list_all()).people) == 2


def test_of_two_who_use_a_link_at_the_same_time_one_gets_in(open_gateway: OpenGateway, run: Run) -> None:
    first, second = open_gateway(), open_gateway()
    made = run(first.web_access.invite("Ada"))

    async def both() -> tuple[WebLogin | None, WebLogin | None]:
        return await asyncio.gather(
            first.web_access.redeem(made.code, COOKIE), second.web_access.redeem(made.code, OTHER)
        )

    assert run(both()).count(None) == 1
    assert len(run(first.web_access.list_all()).people) == 2


def test_a_wrong_code_lets_nobody_in(gateway: GatewayStore, run: Run) -> None:
    run(gateway.web_access.invite("Ada"))
    for wrong in ("", "x" * 43, "\x00", "\ud800"):
        assert run(gateway.web_access.redeem(wrong, COOKIE)) is None
    assert run(gateway.web_access.find_login(COOKIE)) is None
    assert [one.name for one in run(gateway.web_access.list_all()).invites] == ["Ada"]


def test_a_link_ends_after_its_days(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    week, day = run(gateway.web_access.invite("Ada")), run(gateway.web_access.invite("Bo", days=1))
    assert week.invite.expires_at - clock.now() == timedelta(days=7)
    clock.advance(timedelta(days=1))
    assert run(gateway.web_access.redeem(day.code, COOKIE)) is None
    clock.advance(timedelta(days=6) - timedelta(seconds=1))
    assert run(gateway.web_access.redeem(week.code, COOKIE)) is not None


def test_nobody_can_read_a_code_or_a_cookie_from_the_store(
    gateway: GatewayStore, run: Run, stored_bytes: StoredBytes
) -> None:
    made = run(gateway.web_access.invite("Heron"))
    stored = stored_bytes()
    assert b"Heron" in stored
    assert made.code.encode() not in stored


def test_a_trusted_person_is_trusted(gateway: GatewayStore, run: Run) -> None:
    made = run(gateway.web_access.invite("Ada", "trusted"))
    login = run(gateway.web_access.redeem(made.code, COOKIE))
    assert login is not None
    assert login.role == "trusted"


def test_nobody_is_made_an_owner_by_a_link(gateway: GatewayStore, run: Run) -> None:
    with pytest.raises(InvalidRequest, match="guest or trusted"):
        run(gateway.web_access.invite("Ada", "owner"))


@pytest.mark.parametrize("days", [0, -1, 366])
def test_a_link_holds_for_a_year_at_most(gateway: GatewayStore, run: Run, days: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 365"):
        run(gateway.web_access.invite("Ada", days=days))


@pytest.mark.parametrize("name", ["", "  ", "\u200b", "\u202e"])
def test_a_link_is_for_somebody_with_a_name(gateway: GatewayStore, run: Run, name: str) -> None:
    with pytest.raises(InvalidRequest, match="who is invited"):
        run(gateway.web_access.invite(name))


def test_a_name_is_one_persons(gateway: GatewayStore, run: Run) -> None:
    run(gateway.web_access.invite("Ada"))
    with pytest.raises(InvalidRequest, match="waits already"):
        run(gateway.web_access.invite("ada"))
    login = run(join(gateway, "Bo"))
    with pytest.raises(InvalidRequest, match=user_id_of(login.person)):
        run(gateway.web_access.invite("BO"))
    with pytest.raises(InvalidRequest, match="web link"):
        run(gateway.web_access.invite("owner"))


def test_somebody_known_gets_a_link_for_another_browser(gateway: GatewayStore, run: Run) -> None:
    first = run(join(gateway, "Ada"))
    again = run(gateway.web_access.invite(user_id_of(first.person)))
    assert run(gateway.web_access.redeem(again.code, OTHER)) == first
    raised = run(gateway.web_access.invite(first.person, "trusted"))
    assert run(gateway.web_access.redeem(raised.code, digest_of("third"))) == WebLogin(
        person=first.person, name="Ada", role="trusted"
    )
    assert run(gateway.web_access.find_login(COOKIE)) == WebLogin(person=first.person, name="Ada", role="trusted")


def test_an_id_that_nobody_has_is_no_name(gateway: GatewayStore, run: Run) -> None:
    with pytest.raises(UnknownPerson, match="nobody has the id"):
        run(gateway.web_access.invite("u000000000000"))


def test_a_login_lasts_while_it_is_used(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    login = run(join(gateway, "Ada"))
    for _ in range(4):
        clock.advance(timedelta(days=29))
        assert run(gateway.web_access.find_login(COOKIE)) == login
    clock.advance(timedelta(days=30))
    assert run(gateway.web_access.find_login(COOKIE)) is None


def test_use_is_written_down_once_an_hour(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    run(join(gateway, "Ada"))
    came = clock.now()

    def seen() -> object:
        return run(gateway.web_access.list_all()).people[1].seen_at

    clock.advance(timedelta(minutes=59))
    run(gateway.web_access.find_login(COOKIE))
    assert seen() == came
    clock.advance(timedelta(minutes=1))
    run(gateway.web_access.find_login(COOKIE))
    assert seen() == clock.now()


def test_a_login_that_was_ended_stays_ended(gateway: GatewayStore, run: Run) -> None:
    run(join(gateway, "Ada"))
    assert run(gateway.web_access.log_out(COOKIE))
    assert not run(gateway.web_access.log_out(COOKIE))
    assert run(gateway.web_access.find_login(COOKIE)) is None


def test_the_owner_needs_no_role_in_the_store(gateway: GatewayStore, run: Run) -> None:
    run(gateway.web_access.log_in(OWNER, "Owner", COOKIE))
    assert run(gateway.web_access.find_login(COOKIE)) == WebLogin(person=OWNER, name="Owner", role="owner")
    run(gateway.web_access.log_in(OWNER, "Owner", OTHER))
    assert run(gateway.web_access.log_out_everywhere(OWNER)) == 2
    assert run(gateway.web_access.find_login(COOKIE)) is None


def test_a_login_without_a_role_opens_nothing(gateway: GatewayStore, run: Run) -> None:
    login = run(join(gateway, "Ada"))
    run(gateway.people.remove_role(login.person))
    assert run(gateway.web_access.find_login(COOKIE)) is None


def test_only_the_newest_logins_of_a_person_are_kept(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    cookies = [digest_of(str(number)) for number in range(MAX_LOGINS + 2)]
    for cookie in cookies:
        clock.advance(timedelta(seconds=1))
        run(gateway.web_access.log_in(OWNER, "Owner", cookie))
    run(join(gateway, "Ada"))
    assert run(gateway.web_access.list_all()).people[0].logins == MAX_LOGINS
    assert [run(gateway.web_access.find_login(cookie)) is None for cookie in cookies[:3]] == [True, True, False]


def test_what_has_ended_is_pruned(gateway: GatewayStore, run: Run, clock: FakeClock, raw_execute: RawExecute) -> None:
    run(gateway.web_access.invite("Ada"))
    run(gateway.web_access.log_in(OWNER, "Owner", COOKIE))
    with pytest.raises(Exception, match=r"(?i)not.null"):
        require_no_rows(raw_execute, "web_invites")
    clock.advance(timedelta(days=31))
    run(gateway.web_access.log_in(OWNER, "Owner", OTHER))
    require_no_rows(raw_execute, "web_invites")
    assert run(gateway.web_access.list_all()).people[0].logins == 1
    run(gateway.web_access.log_out_everywhere(OWNER))
    require_no_rows(raw_execute, "web_logins")


@pytest.mark.parametrize("by", ["id", "person", "name", "other case"])
def test_who_is_revoked_is_a_stranger(gateway: GatewayStore, run: Run, by: str) -> None:
    login = run(join(gateway, "Ada"))
    kept = run(join(gateway, "Bo", OTHER))
    link = run(gateway.web_access.invite(login.person))
    who = {"id": user_id_of(login.person), "person": login.person, "name": "Ada", "other case": "aDA"}[by]
    gone = run(gateway.web_access.revoke(who))
    assert (gone.name, gone.user_id, gone.logins, gone.invites) == ("Ada", user_id_of(login.person), 1, 1)
    assert run(gateway.web_access.find_login(COOKIE)) is None
    assert run(gateway.people.find_role(login.person)) is None
    assert run(gateway.web_access.redeem(link.code, digest_of("third"))) is None
    assert run(gateway.web_access.find_login(OTHER)) == kept


def test_a_link_can_be_taken_back(gateway: GatewayStore, run: Run) -> None:
    made = run(gateway.web_access.invite("Ada"))
    gone = run(gateway.web_access.revoke("ada"))
    assert (gone.name, gone.user_id, gone.invites) == ("Ada", None, 1)
    assert run(gateway.web_access.redeem(made.code, COOKIE)) is None


def test_revoking_nobody_or_the_owner_says_so(gateway: GatewayStore, run: Run) -> None:
    with pytest.raises(UnknownPerson, match="nobody called Ada"):
        run(gateway.web_access.revoke("Ada"))
    with pytest.raises(InvalidRequest, match="--rotate"):
        run(gateway.web_access.revoke("owner"))


def test_of_several_people_with_one_name_none_is_revoked_by_it(gateway: GatewayStore, run: Run) -> None:
    ids = ("uaaaaaaaaaaaa", "ubbbbbbbbbbbb")
    for user_id in ids:
        run(gateway.people.set_role(f"web:{user_id}", "guest", "Ada"))
    with pytest.raises(InvalidRequest, match=r"uaaaaaaaaaaaa, ubbbbbbbbbbbb"):
        run(gateway.web_access.revoke("Ada"))
    assert len(run(gateway.web_access.list_all()).people) == 3


def test_people_of_other_platforms_are_not_of_the_page(gateway: GatewayStore, run: Run) -> None:
    for other in ("telegram:7", "webex:1", "web@other:1", "zulip:1"):
        run(gateway.people.set_role(other, "guest"))
    assert [one.user_id for one in run(gateway.web_access.list_all()).people] == ["owner"]


def test_a_person_is_told_of_their_logins_and_links(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    login = run(join(gateway, "Ada"))
    run(gateway.web_access.invite(login.person))
    summary = run(gateway.export(login.person, limit=1))[0].summary
    assert summary is not None
    assert [(one.name, one.created_at, one.seen_at) for one in summary.logins] == [("Ada", clock.now(), clock.now())]
    assert [one.name for one in summary.invites] == ["Ada"]
    assert not summary.is_empty


def test_an_erased_person_leaves_no_login_and_no_link(
    gateway: GatewayStore, run: Run, stored_bytes: StoredBytes, raw_execute: RawExecute
) -> None:
    login = run(join(gateway, "Zebraline"))
    run(gateway.web_access.invite(login.person))
    assert b"Zebraline" in stored_bytes()
    run(gateway.erase_person(login.person))
    assert run(gateway.web_access.find_login(COOKIE)) is None
    for table in ("web_logins", "web_invites"):
        require_no_rows(raw_execute, table)
    left = stored_bytes()
    assert b"Zebraline" not in left
    assert login.person.encode() not in left
