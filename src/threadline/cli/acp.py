"""`threadline acp`: the agent of an editor."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from threadline.cli import render
from threadline.cli.options import Db, examples
from threadline.cli.serve import ConfigFile
from threadline.texts import editors as texts

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
        render.note(texts.AT_A_TERMINAL)
    app.run_acp(app.Serving(db=db, agent=agent, config=config))
