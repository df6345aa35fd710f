from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.conftest import Cli

from threadline import SessionStore, __version__
from threadline.config.load import load_config
from threadline.local_user import default_database
from threadline.store.engine.sql import latest_version
from threadline.testing import dm, user


def test_the_version_is_told(cli: Cli) -> None:
    assert cli("--version") == (0, f"threadline {__version__}\n", "")


def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    shown = cli()
    assert shown.code == 0
    assert "Examples:" in shown.out


@pytest.mark.parametrize(
    "command",
    [
        ["sessions", "list"],
        ["sessions", "show", "x"],
        ["sessions", "search", "x"],
        ["sessions", "title", "x", "y"],
        ["sessions", "export", "x"],
        ["sessions", "delete", "x", "--yes"],
        ["sessions", "prune", "--older-than", "1d", "--yes"],
        ["db", "info"],
        ["db", "check"],
        ["db", "backup", "copy.db"],
    ],
)
def test_a_database_that_is_missing_is_told_of_and_not_made(command: list[str], cli: Cli, db: Path) -> None:
    refused = cli(*command)
    assert refused.code == 1
    assert refused.out == ""
    assert "threadline db migrate" in refused.err
    assert refused.err.count("\n") == 1
    assert list(db.parent.iterdir()) == []


def test_migrate_makes_a_database_and_says_what_it_did(cli: Cli, db: Path) -> None:
    assert "was made" in cli("db", "migrate").out
    assert db.stat().st_mode & 0o777 == 0o600
    assert "is up to date" in cli("db", "migrate").out
    assert cli("db", "migrate", "--json").json() == {
        "location": f"sqlite://{db}",
        "schema_version": latest_version(),
        "changed": False,
    }
    assert "--all" in cli("sessions", "list").out


def test_the_facts_of_a_database(store: SessionStore, cli: Cli, db: Path) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, [user("one"), user("two")])
    store.get_or_create_session(dm(), force_new=True)
    facts = cli("db", "info", "--json").json()
    assert (facts["sessions"], facts["ended_sessions"], facts["messages"]) == (2, 1, 2)
    assert facts["location"] == f"sqlite://{db}"
    assert f"sqlite://{db}" in cli("db", "info").out


def test_a_sound_database_passes_its_check(store: SessionStore, cli: Cli) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, user("one"))
    assert cli("db", "check") == (0, "All is well: 1 session, 1 message.\n", "")
    assert cli("db", "check", "--json").json()["ok"] is True


def test_a_file_that_is_no_database_is_told_of_in_one_sentence(cli: Cli, db: Path) -> None:
    db.write_bytes(b"not a database, and longer than a header would be" * 100)
    for command in (["db", "check"], ["sessions", "list"], ["db", "migrate"]):
        refused = cli(*command)
        assert refused.code == 1
        assert refused.err.startswith("threadline: ")
        assert refused.err.count("\n") == 1
    assert db.read_bytes().startswith(b"not a database")


def test_a_backup_opens_and_overwrites_nothing(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    session_id = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(session_id, user("one"))
    copy = tmp_path / "copy.db"
    written = cli("db", "backup", str(copy))
    assert written.code == 0
    assert "verified" in written.out
    assert cli("sessions", "show", session_id, "--db", str(copy), "--json").json()["messages"][0]["message"] == user(
        "one"
    )
    again = cli("db", "backup", str(copy))
    assert again.code == 1
    assert "exists" in again.err


def test_the_option_goes_before_the_variable(store: SessionStore, cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    SessionStore.open(other).close()
    store.get_or_create_session(dm())
    assert cli("db", "info", "--json").json()["sessions"] == 1
    assert cli("db", "info", "--json", "--db", f"sqlite://{other}").json()["sessions"] == 0


@pytest.mark.parametrize("place", ["mysql://x", "sqlite://host/x", ":memory:", "~nobody-of-that-name/x.db", "folder/"])
def test_a_place_that_can_be_no_store_is_refused(place: str, cli: Cli) -> None:
    refused = cli("sessions", "list", "--db", place)
    assert refused.code == 1
    assert refused.err.startswith("threadline: ")


def test_the_default_database_is_private_in_the_data_folder(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "share"))
    monkeypatch.setenv("THREADLINE_DB", "")
    assert cli("db", "migrate").code == 0
    place = default_database()
    assert place.name == "threadline.db"
    assert place.is_relative_to(tmp_path / "home")
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert place.stat().st_mode & 0o777 == 0o600


def test_an_empty_variable_counts_as_not_set() -> None:
    nowhere = {"THREADLINE_CONFIG": "/dev/null"}
    assert load_config(environment=nowhere | {"THREADLINE_DB": ""}).db is None
    assert load_config(environment=nowhere | {"THREADLINE_DB": "x.db"}).db == "x.db"


def test_a_port_that_was_asked_for_and_is_taken_is_refused(cli: Cli, db: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = cli("serve", "--port", str(port))
    assert (refused.code, refused.out) == (1, "")
    assert f"port {port} is taken" in refused.err
    assert refused.err.count("\n") == 1
    assert not db.exists()
