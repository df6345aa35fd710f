"""The command tree; errors become one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from threadline.cli import (
    compat,
    config,
    db,
    messages,
    people,
    platforms,
    render,
    serve,
    sessions,
    status,
    web,
)
from threadline.cli.options import examples
from threadline.errors import ConfigError, ThreadlineError

app = typer.Typer(
    name="threadline",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "threadline serve",
        "threadline sessions list",
        'threadline sessions search "invoice -draft"',
        "threadline db check",
    ),
)
app.add_typer(sessions.app, name="sessions")
app.add_typer(people.app, name="people")
app.add_typer(db.app, name="db")
app.add_typer(people.pair_app, name="pair")
app.add_typer(platforms.app, name="platforms")
app.add_typer(web.app, name="web")
app.add_typer(messages.app, name="messages")
app.add_typer(messages.outbox_app, name="outbox")
app.add_typer(config.app, name="config")
app.add_typer(compat.app, name="compat")
app.command("serve", epilog=serve.SERVE_EXAMPLES)(serve.serve)
app.command("status", epilog=status.STATUS_EXAMPLES)(status.status)
app.command("doctor", epilog=status.DOCTOR_EXAMPLES)(status.doctor)
app.command("chat", epilog=serve.CHAT_EXAMPLES)(serve.chat)
app.command("acp", epilog=serve.ACP_EXAMPLES)(serve.acp)


def _show_version(asked: bool) -> None:
    if asked:
        from threadline import __version__

        render.print_line(f"threadline {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """The session layer and gateway for AI agents: run it, talk to it, look after it."""
    if context.invoked_subcommand is None and not version:
        render.print_line(context.get_help())


def _list_whole_sentences(command: Any) -> None:
    """Show the whole first sentence of each command's help in lists of commands; Typer would cut it to a line."""
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = inner.get_short_help_str(limit=1000)
        _list_whole_sentences(inner)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code. An error is printed as one sentence."""
    try:
        code = _run_command(argv)
        sys.stdout.flush()
    except ConfigError as error:
        # Print each problem on its own line: joined, they would be cut.
        for line in str(error).splitlines():
            render.print_error(line)
        return 1
    except ThreadlineError as error:
        render.print_error(str(error))
        return 1
    except BrokenPipeError:
        _silence(sys.stdout.fileno())
        return 1
    return code


def _run_command(argv: Sequence[str]) -> int:
    try:
        tree = get_command(app)
        _list_whole_sentences(tree)
        tree.main(args=list(argv), prog_name="threadline")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _silence(output: int) -> None:
    """Send the output to /dev/null. The reader of the pipe is gone, and the flush at exit must not fail because of that."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
