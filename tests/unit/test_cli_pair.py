"""`threadline pair`, on a database that the commands share with an open gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.conftest import Outcome
from typer.main import get_command

from threadline import SessionStore
from threadline.cli import people, render
from threadline.clock import SystemClock
from threadline.errors import ThreadlineError
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.store.people.people import PairingCode
from threadline.testing import FakeClock, dm


class Gateway:
    """A gateway's store beside the commands, on the machine's own clock unless a test says otherwise."""

    def __init__(self, db: Path) -> None:
        self._db = db
        self._runner = asyncio.Runner()
        self.run = self._runner.run
        self.store = self.run(GatewayStore.open(db))

    def ask(self, source: SessionSource) -> str:
        """The code that a stranger is given."""
        asked = self.run(self.store.people.request_pairing(source))
        assert isinstance(asked, PairingCode)
        return asked.code

    def close(self) -> None:
        """Closes the store and its loop."""
        self.run(self.store.close())
        self._runner.close()


@pytest.fixture
def gateway(db: Path) -> Iterator[Gateway]:
    opened = Gateway(db)
    yield opened
    opened.close()


@pytest.fixture
def cli(db: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs `threadline pair` with these arguments, and tells errors as the program does."""
    monkeypatch.setenv("THREADLINE_DB", str(db))

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = 0
        try:
            get_command(people.pair_app).main(args=list(arguments), prog_name="threadline pair")
        except SystemExit as end:
            code = int(end.code or 0)
        except ThreadlineError as error:
            render.print_error(str(error))
            code = 1
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


Cli = Callable[..., Outcome]


def test_an_empty_list_says_so(gateway: Gateway, cli: Cli) -> None:
    listed = cli("list")
    assert listed.code == 0
    assert listed.out == "Nobody waits to be paired.\nNobody is paired.\n"
    assert cli("list", "--json").json() == {"pending": [], "people": [], "locked_until": None}


def test_a_list_shows_who_waits_and_who_is_paired_and_no_code(gateway: Gateway, cli: Cli) -> None:
    code = gateway.ask(dm("7", user_name="Ada\x1b[31m"))
    gateway.run(gateway.store.people.set_role("signal:9", "trusted", "Grace"))
    listed = cli("list")
    assert listed.code == 0
    for shown in ("telegram:7", "Ada", "signal:9", "trusted", "Grace"):
        assert shown in listed.out
    assert "\x1b" not in listed.out
    assert code not in listed.out
    document = cli("list", "--json").json()
    (waiting,) = document["pending"]
    assert (waiting["person"], waiting["platform"], waiting["name"]) == ("telegram:7", "telegram", "Ada[31m")
    assert waiting["asked_at"] < waiting["expires_at"]
    assert [(one["person"], one["role"], one["name"]) for one in document["people"]] == [
        ("signal:9", "trusted", "Grace")
    ]
    assert code not in json.dumps(document)


def test_a_request_whose_code_has_ended_is_not_shown(db: Path, cli: Cli) -> None:
    long_ago = FakeClock(SystemClock().now() - timedelta(hours=1, minutes=1))

    async def ask() -> Any:
        async with await GatewayStore.open(db, clock=long_ago) as store:
            return await store.people.request_pairing(dm("7"))

    assert isinstance(asyncio.run(ask()), PairingCode)
    assert cli("list", "--json").json()["pending"] == []


@pytest.mark.parametrize(
    ("options", "role"),
    [([], "guest"), (["--trusted"], "trusted"), (["--owner"], "owner")],
    ids=str,
)
def test_an_approval_lets_somebody_in_and_tells_them(gateway: Gateway, cli: Cli, options: list[str], role: str) -> None:
    code = gateway.ask(dm("7", user_name="Ada"))
    approved = cli("approve", *options, code)
    assert approved.code == 0, approved.err
    assert "telegram:7 (Ada) is" in approved.out
    assert gateway.run(gateway.store.people.find_role("telegram:7")) == role
    assert [told.target.chat_id for told in gateway.run(gateway.store.outbox.list_page())] == ["dm-7"]


def test_an_approval_goes_by_number_too_and_speaks_json(gateway: Gateway, cli: Cli) -> None:
    gateway.ask(dm("7"))
    number = cli("list", "--json").json()["pending"][0]["number"]
    approved = cli("approve", str(number), "--json")
    assert approved.json() == {"person": "telegram:7", "role": "guest", "name": None}


def test_a_wrong_code_is_told_and_the_fifth_locks(gateway: Gateway, cli: Cli) -> None:
    code = gateway.ask(dm("7"))
    first = cli("approve", "ZZZZZZZZ")
    assert first.code == 1
    assert "4 more" in first.err
    guesses = [cli("approve", "ZZZZZZZZ") for _ in range(4)]
    assert "nobody can be paired until" in guesses[-1].err
    assert cli("approve", code).code == 1
    assert gateway.run(gateway.store.people.find_role("telegram:7")) is None
    assert "Nobody can be paired until" in cli("list").err
    assert cli("list", "--json").json()["locked_until"] is not None


def test_owner_and_trusted_at_once_are_a_misuse(gateway: Gateway, cli: Cli) -> None:
    code = gateway.ask(dm("7"))
    refused = cli("approve", code, "--owner", "--trusted")
    assert refused.code == 2
    assert "one of --owner and --trusted" in refused.err
    assert gateway.run(gateway.store.people.find_role("telegram:7")) is None


def test_whoever_is_revoked_is_a_stranger(gateway: Gateway, cli: Cli) -> None:
    gateway.run(gateway.store.people.set_role("telegram:7", "owner"))
    assert cli("revoke", "telegram:7").out == "telegram:7 is a stranger now.\n"
    assert gateway.run(gateway.store.people.find_role("telegram:7")) is None
    again = cli("revoke", "telegram:7")
    assert again.code == 1
    assert "pair list" in again.err


def test_a_request_can_be_turned_down(gateway: Gateway, cli: Cli) -> None:
    code = gateway.ask(dm("7"))
    assert cli("revoke", "telegram:7", "--json").json() == {"person": "telegram:7", "revoked": True}
    assert cli("approve", code).code == 1
    assert gateway.run(gateway.store.people.list_all()) == []


@pytest.mark.parametrize("arguments", [("list",), ("approve", "ABCDEFGH"), ("revoke", "telegram:7")])
def test_a_missing_database_is_told_of_and_not_made(db: Path, cli: Cli, arguments: tuple[str, ...]) -> None:
    missing = cli(*arguments)
    assert missing.code == 1
    assert str(db) in missing.err
    assert not db.exists()


def test_the_database_may_be_named(tmp_path: Path, cli: Cli) -> None:
    other = tmp_path / "other.db"
    SessionStore.open(other).close()
    assert cli("list", "--db", str(other)).code == 0


@pytest.mark.parametrize("command", ["list", "approve", "revoke"])
def test_the_help_shows_what_to_type(cli: Cli, command: str) -> None:
    shown = cli(command, "--help")
    assert shown.code == 0
    assert f"threadline pair {command}" in shown.out.partition("Examples:")[2]
