"""`threadline web`, on a database and a data folder of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.conftest import Cli

from threadline.local_user import web_token_file
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import OWNER, WebLogin, digest_of, user_id_of
from threadline.web.server import address_file, published_address

T = TypeVar("T")
COOKIE = digest_of("a cookie")
LINK = re.compile(r"http://127\.0\.0\.1:8765/#([ti])=([A-Za-z0-9_-]{43})\n")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token is made here, and not in the folder of whoever runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("THREADLINE_WEB__PORT", "8765")
    return tmp_path / "data"


def work_on(db: Path, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    """What somebody does with the store beside the commands; it is made where it is missing."""

    async def carried_out() -> T:
        async with await GatewayStore.open(db) as store:
            return await work(store)

    return asyncio.run(carried_out())


def secret_in(link: str) -> str:
    found = LINK.fullmatch(link)
    assert found is not None, link
    return found[2]


def come(db: Path, link: str, cookie: bytes = COOKIE) -> WebLogin:
    """Somebody opens a link."""
    login = work_on(db, lambda store: store.web_access.redeem(secret_in(link), cookie))
    assert login is not None
    return login


@pytest.fixture
def made(db: Path) -> Path:
    """A database that is there."""
    work_on(db, lambda store: store.web_access.list_all())
    return db


def test_the_owners_link_is_made_once(cli: Cli) -> None:
    first, again = cli("web", "link"), cli("web", "link")
    assert (first.code, first.out) == (0, again.out)
    token = secret_in(first.out)
    assert web_token_file().read_text().strip() == token
    assert cli("web", "token").out == f"{token}\n"
    assert cli("web", "token", "--json").json() == {"token": token}
    assert cli("web", "link", "--json").json() == {"link": first.out.strip(), "fragment": f"#t={token}"}


def test_no_secret_is_put_behind_a_guessed_address(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THREADLINE_WEB__PORT")
    link, invite = cli("web", "link"), cli("web", "invite", "Ada")
    assert re.fullmatch(r"#t=[A-Za-z0-9_-]{43}\n", link.out)
    assert re.fullmatch(r"#i=[A-Za-z0-9_-]{43}\n", invite.out)
    assert "threadline serve" in link.err
    assert "threadline serve" in invite.err
    assert cli("web", "link", "--json").json() == {"link": None, "fragment": link.out.strip()}


def test_links_go_to_the_page_that_runs_whatever_is_configured(cli: Cli, made: Path) -> None:
    path = address_file(web_token_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    with published_address(path, "http://127.0.0.1:8766/"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert cli("web", "link").out.startswith("http://127.0.0.1:8766/#t=")
        with published_address(path, "http://127.0.0.1:8767/"):
            assert cli("web", "invite", "Ada").out.startswith("http://127.0.0.1:8767/#i=")
    assert not path.exists()
    # As a server leaves it that was killed.
    path.write_text("http://127.0.0.1:8766/")
    assert cli("web", "link").out.startswith("http://127.0.0.1:8765/#t=")


def test_links_go_to_the_public_address(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADLINE_WEB__PUBLIC_URL", "https://chat.example.org/")
    assert cli("web", "link").out.startswith("https://chat.example.org/#t=")
    assert cli("web", "invite", "Ada").out.startswith("https://chat.example.org/#i=")


@pytest.mark.parametrize(
    ("host", "port", "base"),
    [("0.0.0.0", "9000", "http://127.0.0.1:9000/"), ("::1", "9000", "http://[::1]:9000/")],
)
def test_links_go_to_where_the_page_listens(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, host: str, port: str, base: str
) -> None:
    monkeypatch.setenv("THREADLINE_WEB__HOST", host)
    monkeypatch.setenv("THREADLINE_WEB__PORT", port)
    assert cli("web", "link").out.startswith(f"{base}#t=")


def test_a_damaged_token_is_told_in_one_sentence(cli: Cli) -> None:
    cli("web", "link")
    web_token_file().write_text("")
    told = cli("web", "link")
    assert (told.code, told.out) == (1, "")
    assert "delete it" in told.err


def test_an_invited_person_comes_in_by_the_link(cli: Cli, made: Path) -> None:
    invited = cli("web", "invite", "Ada")
    assert invited.code == 0
    assert "lets Ada in once, until" in invited.err
    login = come(made, invited.out)
    assert (login.name, login.role) == ("Ada", "guest")


def test_an_invitation_says_all_as_json(cli: Cli, made: Path) -> None:
    told = cli("web", "invite", "Ada", "--role", "trusted", "--days", "1", "--json").json()
    assert (told["name"], told["user_id"], told["role"]) == ("Ada", None, "trusted")
    assert come(made, f"{told['link']}\n").role == "trusted"


@pytest.mark.parametrize("wrong", [("--role", "owner"), ("--days", "0"), ("--days", "366"), ("--days", "x")])
def test_a_wrong_option_is_refused(cli: Cli, made: Path, wrong: tuple[str, str]) -> None:
    assert cli("web", "invite", "Ada", *wrong).code == 2
    assert cli("web", "people", "--json").json()["invites"] == []


def test_people_and_open_links_are_shown(cli: Cli, made: Path) -> None:
    ada = come(made, cli("web", "invite", "Ada").out)
    cli("web", "invite", "Bo", "--role", "trusted")
    cli("web", "invite", user_id_of(ada.person))
    told = cli("web", "people", "--json").json()
    assert [(one["user_id"], one["name"], one["logins"]) for one in told["people"]] == [
        ("owner", "Owner", 0),
        (user_id_of(ada.person), "Ada", 1),
    ]
    assert [(one["name"], one["role"], one["user_id"]) for one in told["invites"]] == [
        ("Bo", "trusted", None),
        ("Ada", None, user_id_of(ada.person)),
    ]
    shown = cli("web", "people").out
    assert [word for word in ("Ada", "Bo", "Owner", user_id_of(ada.person)) if word not in shown] == []


def test_who_is_revoked_is_let_in_no_more(cli: Cli, made: Path) -> None:
    ada = come(made, cli("web", "invite", "Ada").out)
    gone = cli("web", "revoke", "Ada")
    assert gone.out == f"Ada ({user_id_of(ada.person)}) can't use the page any more: 1 login ended.\n"
    assert work_on(made, lambda store: store.web_access.find_login(COOKIE)) is None
    assert cli("web", "revoke", "Ada").code == 1


def test_a_link_is_taken_back(cli: Cli, made: Path) -> None:
    cli("web", "invite", "Ada")
    assert cli("web", "revoke", "Ada").out == "The link for Ada is taken back.\n"
    cli("web", "invite", "Ada")
    assert cli("web", "revoke", "Ada", "--json").json() == {"name": "Ada", "user_id": None, "logins": 0, "invites": 1}


def test_a_new_token_ends_the_owners_logins(cli: Cli, made: Path) -> None:
    old = secret_in(cli("web", "link").out)
    work_on(made, lambda store: store.web_access.log_in(OWNER, "Owner", COOKIE))
    ada = come(made, cli("web", "invite", "Ada").out, digest_of("hers"))
    assert "1 login ended" in cli("web", "token", "--rotate").out
    assert secret_in(cli("web", "link").out) != old
    assert work_on(made, lambda store: store.web_access.find_login(COOKIE)) is None
    assert work_on(made, lambda store: store.web_access.find_login(digest_of("hers"))) == ada


def test_a_new_token_needs_no_database(cli: Cli, db: Path) -> None:
    told = cli("web", "token", "--rotate", "--json").json()
    assert told == {"token": web_token_file().read_text().strip(), "ended_logins": 0}
    assert not db.exists()


def test_strangers_characters_in_a_name_do_nothing(cli: Cli, made: Path) -> None:
    cli("web", "invite", "A\x1b[31mda\u202e")
    assert cli("web", "people", "--json").json()["invites"][0]["name"].startswith("A")
    assert "\x1b" not in cli("web", "people").out
