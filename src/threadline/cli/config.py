"""`threadline config`: the configuration file and what holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from threadline.cli import render
from threadline.cli.options import AsJson, examples, parse_path

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="The configuration: write a file, look at it, check it."
)

File: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration file.",
        parser=parse_path,
        show_default="THREADLINE_CONFIG, else config.toml in your configuration folder",
    ),
]


@app.command("init", epilog=examples("threadline config init", "threadline config init --path ./threadline.toml"))
def init(
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            metavar="FILE",
            help="The file to write.",
            parser=parse_path,
            show_default="THREADLINE_CONFIG, else config.toml in your configuration folder",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a configuration file with every setting in it, for you to change.

    Only you can read the file. A file that is there already stays as it is, unless --force is given.
    """
    from threadline.config.load import config_path
    from threadline.config.write import write_starter

    file = config_path(path)
    write_starter(file, force=force)
    render.print_line(f"Wrote {file}. Every setting in it is a comment: take the # away from those that you change.")


@app.command("show", epilog=examples("threadline config show", "threadline config show --config ./threadline.toml"))
def show(config: File = None) -> None:
    """Show the settings that hold, as TOML, and where each came from.

    Secrets are shown as references, never as they are.
    """
    from threadline.config.load import load_config
    from threadline.config.write import render_config

    render.print_line(render_config(load_config(config)).rstrip("\n"))


@app.command("check", epilog=examples("threadline config check", "threadline config check --json"))
def check(config: File = None, as_json: AsJson = False) -> None:
    """Say what is wrong with the configuration and what is worth a second look.

    The exit code is 1 if anything is wrong. Commands that give secrets are not run.
    """
    from threadline.config.check import check as findings_of
    from threadline.config.load import config_path

    file = config_path(config)
    findings = findings_of(config)
    problems = [finding.text for finding in findings if finding.severity == "problem"]
    warnings = [finding.text for finding in findings if finding.severity == "warning"]
    if as_json:
        render.show_json({"ok": not problems, "path": str(file), "problems": problems, "warnings": warnings})
    else:
        for text in problems:
            render.print_line(f"- {text}")
        for text in warnings:
            render.print_line(f"- warning: {text}")
    if problems:
        render.print_error(f"{render.count_text(len(problems), 'problem')} found in the configuration")
        raise typer.Exit(1)
    if not as_json:
        render.print_line(
            f"{file} can be used." if file.exists() else f"All is well: there is no {file}, so the defaults hold."
        )


@app.command("path", epilog=examples("threadline config path", "threadline config path --json"))
def path(config: File = None, as_json: AsJson = False) -> None:
    """Say which configuration file is read."""
    from threadline.config.load import config_path

    file = config_path(config)
    if as_json:
        render.show_json({"path": str(file), "exists": file.exists()})
        return
    render.print_line(str(file))
    if not file.exists():
        render.print_note("There is no such file yet; `threadline config init` writes one.")
