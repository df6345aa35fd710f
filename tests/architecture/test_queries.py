"""One text of SQL for two engines: every query is understood by both, used, and asked for under names that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import psycopg
import pytest
from tests.architecture.sources import PACKAGE, parsed, place
from tests.conftest import PostgresServer

from threadline import SessionStore
from threadline.store.engine.sql import load_queries
from threadline.store.engine.sqlite.connection import connect_reader

SQLITE = load_queries("sqlite", "?")
POSTGRES = load_queries("postgres", "$")
VERBS = frozenset({"find", "rows", "run", "run_many", "rows_many"})
ENGINES = {"sqlite": SQLITE, "postgres": POSTGRES}

# How each engine keeps the words of the search index is its own affair, and how the places in listings follow.
ONLY_SQLITE_TABLES = re.compile(r"sqlite_.*|words(_.*)?|moved")
ONLY_POSTGRES_COLUMNS = {("documents", "part"), ("documents", "words")}


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    path = tmp_path_factory.mktemp("queries") / "threadline.db"
    SessionStore.open(path).close()
    return connect_reader(path)


@pytest.fixture
def postgres_connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    options = "-c search_path=threadline"
    with psycopg.connect(postgres_server.location, autocommit=True, options=options) as connection:
        yield connection


@pytest.mark.parametrize("name", sorted(SQLITE))
def test_sqlite_understands(name: str, sqlite_file: apsw.Connection) -> None:
    query = SQLITE[name]
    sqlite_file.execute(f"EXPLAIN {query.text}", [None] * len(query.names)).fetchall()


@pytest.mark.parametrize("name", sorted(POSTGRES))
def test_postgres_understands(name: str, postgres_connection: psycopg.Connection[Any]) -> None:
    postgres_connection.execute(cast("Any", f"PREPARE {name} AS {POSTGRES[name].text}"))


def test_an_override_takes_the_same_values() -> None:
    for name in SQLITE.keys() & POSTGRES.keys():
        assert set(SQLITE[name].names) == set(POSTGRES[name].names), name


def test_an_override_takes_them_in_the_same_order_where_rows_are_bound_by_place() -> None:
    by_place = {
        name
        for _, _, pattern in asked_for({"run_many", "rows_many"})
        for name in SQLITE.keys() & POSTGRES.keys()
        if pattern.fullmatch(name)
    }
    assert by_place
    for name in by_place:
        assert SQLITE[name].names == POSTGRES[name].names, name


def test_every_query_that_is_asked_for_exists() -> None:
    unknown = [
        f"{place(file, line)} {pattern.pattern}"
        for file, line, pattern in asked_for()
        if not any(pattern.fullmatch(name) for name in known_to(file))
    ]
    assert unknown == []


def test_every_query_is_used() -> None:
    asked = list(asked_for())
    mentioned = {
        node.value
        for file in modules()
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    unused = [
        name
        for name in sorted(SQLITE.keys() | POSTGRES.keys())
        if name not in mentioned and not any(pattern.fullmatch(name) for _, _, pattern in asked)
    ]
    assert unused == []


def test_both_engines_have_the_same_tables_and_columns(
    sqlite_file: apsw.Connection, postgres_connection: psycopg.Connection[Any]
) -> None:
    theirs = postgres_connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'threadline'"
    ).fetchall()
    ours = sqlite_file.execute(
        "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'"
    ).fetchall()
    shared = {row for row in ours if not ONLY_SQLITE_TABLES.fullmatch(str(row[0]))}
    assert shared == set(theirs) - ONLY_POSTGRES_COLUMNS


def test_both_engines_allow_null_in_the_same_columns(
    sqlite_file: apsw.Connection, postgres_connection: psycopg.Connection[Any]
) -> None:
    theirs = postgres_connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = 'threadline' AND is_nullable = 'YES'"
    ).fetchall()
    ours = sqlite_file.execute(
        "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c "
        "WHERE t.type = 'table' AND c.[notnull] = 0 AND c.pk = 0"
    ).fetchall()
    shared = {row for row in ours if not ONLY_SQLITE_TABLES.fullmatch(str(row[0]))}
    assert shared == set(theirs)


def test_what_lags_further_than_listings_look_is_noted(sqlite_file: apsw.Connection) -> None:
    [(trigger,)] = sqlite_file.execute("SELECT sql FROM sqlite_schema WHERE name = 'state_moved'").fetchall()
    noted = re.search(r"NEW\.listed_at \+ (\d+)", str(trigger))
    looked = {name: set(re.findall(r" - (\d+)", SQLITE[name].text)) for name in SQLITE if name.startswith("list_of_")}
    assert noted is not None
    assert looked["list_of_owner"] == looked["list_of_platform"] == looked["list_of_cwd"] == {noted.group(1)}


def modules() -> list[Path]:
    return sorted((PACKAGE / "store").rglob("*.py"))


def known_to(file: Path) -> set[str]:
    """The queries that code in this module can name: an engine's own, or those that both have."""
    if file.parent.name in ENGINES:
        return set(ENGINES[file.parent.name])
    return SQLITE.keys() & POSTGRES.keys()


def asked_for(verbs: Collection[str] = VERBS) -> Iterator[tuple[Path, int, re.Pattern[str]]]:
    """Where a query is named in a call on a transaction; `f"list_{scope}"` stands for any that fits."""
    for file in modules():
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and is_asking(node.func, verbs) and node.args:
                yield from ((file, node.lineno, pattern) for pattern in names_in(node.args[0]))


def is_asking(function: ast.expr, verbs: Collection[str]) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in verbs
        and isinstance(function.value, ast.Name)
        and function.value.id in {"tx", "self"}
    )


def names_in(argument: ast.expr) -> list[re.Pattern[str]]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [re.compile(re.escape(argument.value))]
    if isinstance(argument, ast.JoinedStr):
        constant = (ast.Constant,)
        parts = [re.escape(str(part.value)) if isinstance(part, constant) else r"\w+" for part in argument.values]
        return [re.compile("".join(parts))]
    if isinstance(argument, ast.IfExp):
        return [*names_in(argument.body), *names_in(argument.orelse)]
    return []
