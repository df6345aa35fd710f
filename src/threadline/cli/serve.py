"""`threadline serve`: the gateway and its web page. `threadline chat` and `threadline acp`: a terminal's and an editor's agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from threadline.cli import render
from threadline.cli.options import Db, examples, parse_path, whole_number
from threadline.texts import editors as texts

SERVE_EXAMPLES = examples(
    "threadline serve",
    "threadline serve --agent my_agents:answer",
    "threadline serve --port 9000 --db ./threadline.db",
)
CHAT_EXAMPLES = examples(
    "threadline chat",
    "threadline chat --agent my_agents:answer",
    'echo "What is the time in Lima?" | threadline chat',
)

Agent: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="Who answers, in every chat: a configured agent, a kind such as `echo`, or a Python function as "
        "package.module:callable.",
        show_default="the configured one, else echo",
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration.",
        parser=parse_path,
        show_default="`threadline config path`",
    ),
]

ACP_EXAMPLES = (
    examples(
        "threadline acp",
        "threadline acp --agent model",
        "threadline acp --agent acp:claude",
        "threadline acp --agent my_agents:answer",
    )
    + "\n\n"
    + "\n".join(
        (
            "\b",
            "Settings of editors:",
            '  Zed        "agent_servers": {"Threadline": {"type": "custom", "command": "threadline", "args": ["acp"]}}',
            '  JetBrains  ~/.jetbrains/acp.json: {"agent_servers": {"Threadline": {"command": "threadline", "args": ["acp"]}}}',
            '  Neovim     CodeCompanion, adapters.acp: commands = {default = {"threadline", "acp"}}',
        )
    )
)


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen at.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(0, 65535),
            metavar="PORT",
            help="The port to listen at.",
            show_default="8765, or the next free one",
        ),
    ] = None,
    agent: Agent = None,
    config: ConfigFile = None,
    db: Db = None,
) -> None:
    """Run the gateway with its web page until Ctrl-C.

    Messages from the configured platforms are answered by the configured agent; without any, the echo agent answers. A store
    that is missing is made. On SIGTERM or Ctrl-C what runs is finished first; on SIGHUP the configuration is read anew. The
    address that is printed makes whoever opens it the owner of the page.
    """
    from threadline import app

    app.serve(
        app.Serving(db=db, host=host, port=port, agent=agent, config=config),
        ready=lambda address: render.print_line(f"Threadline is at {address}"),
        note=render.print_note,
    )


def chat(
    agent: Agent = None,
    whole: Annotated[bool, typer.Option("--whole", help="Through a pipe: the whole input is one message.")] = False,
    config: ConfigFile = None,
    db: Db = None,
) -> None:
    """Talk to the agent at this terminal, in a conversation that lasts.

    /help shows the commands; Ctrl-C stops an answer, Ctrl-D ends. Through a pipe each line is a message, and only the answers
    are written; the exit code is 1 if a message could not be answered. One terminal of a database has the conversation at a
    time; pipes wait for each other.
    """
    from threadline import app

    is_answered = app.chat(app.Serving(db=db, agent=agent, config=config), note=render.print_note, whole_input=whole)
    if not is_answered and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.Exit(1)


def acp(
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Who answers: a configured agent, a kind such as `echo` or `model`, another ACP agent as acp:NAME (a configured "
            "one or a preset such as claude), or a Python function as package.module:callable.",
            show_default="the configured one, else echo",
        ),
    ] = None,
    config: ConfigFile = None,
    db: Db = None,
) -> None:
    """Serve an editor over standard input and output, in sessions that last.

    An editor starts this command by itself and speaks the Agent Client Protocol with it: Zed, JetBrains, Neovim and others. Its
    sessions are in the same store as everything else, survive restarts, and are found by `threadline sessions search`. Standard
    output carries the protocol alone; the log goes to standard error. It ends when the editor closes its input.
    """
    from threadline import app

    if sys.stdin.isatty():
        render.print_note(texts.AT_A_TERMINAL)
    app.run_acp(app.Serving(db=db, agent=agent, config=config))
