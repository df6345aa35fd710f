"""`threadline people`: what is known of someone. `threadline pair`: who may talk to the agent, and who asks to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, Db, Yes, examples, parse_path

if TYPE_CHECKING:
    from threadline.model.access import Role
    from threadline.store.engine.database import Progress
    from threadline.store.facade import GatewayStore, SessionStore
    from threadline.store.people.people import KnownPerson, Pairing
    from threadline.store.people.person_export import PersonRecord

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="People: hand out what is known of them, or erase it."
)
PersonName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="WHO", help="The person, named by platform and sender id, such as telegram:7.", show_default=False
    ),
]

T = TypeVar("T")

pair_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Pairing: let people in who wrote to the agent, or keep them out."
)


@app.command(
    epilog=examples(
        "threadline people export telegram:7 > ada.jsonl",
        "threadline people export telegram:7 --output ada.jsonl",
        "threadline people export telegram@work:7 -o ada.jsonl",
    )
)
def export(
    who: PersonName,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", parser=parse_path, help="A new file instead of the screen."),
    ] = None,
    db: Db = None,
) -> None:
    """Write all that is known of a person as JSON lines.

    One record a line, told apart by its `kind`: the person, then each session of theirs with all that was ever said in
    it, what they wrote in shared sessions, what their turns cost, what came in from them and what was sent to them. What
    others wrote is not in it.
    """
    from threadline.app import open_existing
    from threadline.transfer.export import CountingIterator, write_new_file

    with open_existing(db) as store, _progress(output) as progress:
        is_known = _is_known(store, who)
        lines = CountingIterator(_lines(store, who, progress))
        if output is not None:
            write_new_file(output, lines)
        for line in lines:
            render.print_stored(line)
    wrote = f"Wrote {render.count_text(lines.count, 'record')}{'' if output is None else f' to {output}'}."
    render.print_note(wrote if is_known else f"{wrote} Nothing is known of {who}; people are named like telegram:7.")


@app.command(
    epilog=examples("threadline people erase telegram:7", "threadline people erase telegram:7 --yes"),
)
def erase(who: PersonName, yes: Yes = False, db: Db = None, as_json: AsJson = False) -> None:
    """Erase all that a person wrote, for good.

    What they wrote anywhere goes, the answers in conversations that were theirs alone, and their traces; so do the folders on
    this machine in which agents have worked for them. Afterwards the database's files no longer hold their words; copies and
    backups made before do. Export first what they should have.
    """
    from threadline.app import erase_agent_folders, open_existing

    with open_existing(db) as store:
        if not _is_known(store, who):
            render.print_note(f"Nothing is known of {who}; people are named like telegram:7.")
        elif not yes and not render.confirm(f"Erase all that {who} ever wrote, for good?"):
            render.print_note("Nothing was erased.")
            raise typer.Exit(1)
        count = store.erase_person(who) + erase_agent_folders(who)
    if as_json:
        render.show_json({"erased": count, "person": who})
    else:
        render.print_line(f"Erased {who}: {render.count_text(count, 'thing')} went.")


def _is_known(store: SessionStore, who: str) -> bool:
    summary = store.export(who, limit=1)[0].summary
    return summary is not None and not summary.is_empty


def _progress(output: Path | None) -> AbstractContextManager[Progress]:
    """Return a progress bar, or nothing if the records themselves go to the screen."""
    return nullcontext(lambda _done, _total: None) if output is None else render.progress("Exporting")


def _lines(store: SessionStore, who: str, progress: Progress) -> Iterator[str]:
    from threadline.store.rows import json_text

    total = 0
    for done, record in enumerate(_records(store, who), 1):
        if record.summary is not None:
            total = 1 + record.summary.following
        yield json_text(record.to_dict()) + "\n"
        # Records stored meanwhile are not in the total.
        progress(done, max(done, total))


def _records(store: SessionStore, who: str) -> Iterator[PersonRecord]:
    page = store.export(who)
    yield from page
    while page.cursor is not None:
        page = store.export(who, cursor=page.cursor)
        yield from page


@pair_app.command("list", epilog=examples("threadline pair list", "threadline pair list --json"))
def list_pairings(db: Db = None, as_json: AsJson = False) -> None:
    """Show who waits to be paired, and who was.

    People who are named in the configuration are not shown: `threadline config show` has them.
    """

    async def look(store: GatewayStore) -> Any:
        return (
            await store.people.list_pairings(),
            await store.people.list_all(),
            await store.people.pairing_locked_until(),
        )

    waiting, paired, locked_until = _with_store(db, look)
    if as_json:
        render.show_json(
            {
                "pending": [_to_json(pairing) for pairing in waiting],
                "people": [_to_json(person) for person in paired],
                "locked_until": locked_until,
            }
        )
        return
    if locked_until is not None:
        render.print_note(
            f"Nobody can be paired until {render.format_time(locked_until)}: there were too many wrong codes."
        )
    _render_waiting(waiting)
    _render_paired(paired)


@pair_app.command(
    "approve",
    epilog=examples(
        "threadline pair approve ABCDEFGH",
        "threadline pair approve --owner ABCDEFGH",
        "threadline pair approve 3 --trusted",
    ),
)
def approve(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE", help="The code that they were given, or their number in `pair list`.", show_default=False
        ),
    ],
    owner: Annotated[bool, typer.Option("--owner", help="They may do everything.")] = False,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="They may also use /model and /handoff; an agent may do more for them.")
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody in who has a pairing code, as a guest unless you say more.

    They are told in their chat. After five wrong codes nobody can be paired for an hour.
    """
    if owner and trusted:
        raise typer.BadParameter("an owner is trusted anyway: use one of --owner and --trusted")
    role: Role = "owner" if owner else "trusted" if trusted else "guest"
    paired = _with_store(db, lambda store: store.people.approve_pairing(code, role))
    if as_json:
        render.show_json(_to_json(paired))
        return
    person_text = f"{paired.person} ({paired.name})" if paired.name else paired.person
    render.print_line(f"{person_text} is {_ROLE_TEXT[paired.role]} now, and is told so in the chat.")


@pair_app.command(
    "revoke", epilog=examples("threadline pair revoke telegram:7", "threadline pair revoke telegram@work:7 --json")
)
def revoke(
    person: Annotated[
        str,
        typer.Argument(
            metavar="PERSON", help="The person as `pair list` shows them, such as telegram:7.", show_default=False
        ),
    ],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Take somebody's role away, or turn down their request.

    From then on they are a stranger. Their sessions stay.
    """
    _with_store(db, lambda store: store.people.revoke(person))
    if as_json:
        render.show_json({"person": person, "revoked": True})
    else:
        render.print_line(f"{person} is a stranger now.")


_ROLE_TEXT = {"guest": "a guest", "trusted": "trusted", "owner": "an owner"}


def _render_waiting(waiting: list[Pairing]) -> None:
    if not waiting:
        render.print_line("Nobody waits to be paired.")
        return
    render.show_heading("Waiting")
    columns = ("Number", "Person", "Name", "Asked", "Until")
    rows = [
        (
            str(pairing.number),
            pairing.person,
            pairing.name or "",
            render.format_time(pairing.asked_at),
            render.format_time(pairing.expires_at),
        )
        for pairing in waiting
    ]
    render.show_table(columns, rows, numbers=("Number",), gives_way="Name")
    render.print_note("`threadline pair approve CODE` lets one of them in: ask them for the code that they were given.")


def _render_paired(paired: list[KnownPerson]) -> None:
    if not paired:
        render.print_line("Nobody is paired.")
        return
    render.show_heading("Paired")
    rows = [(person.person, person.role, person.name or "", render.format_time(person.since)) for person in paired]
    render.show_table(("Person", "Role", "Name", "Since"), rows, gives_way="Name")


def _to_json(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _with_store(db: str | None, work: Callable[[GatewayStore], Awaitable[T]]) -> T:
    from threadline.app import with_gateway_store

    return with_gateway_store(db, work)
