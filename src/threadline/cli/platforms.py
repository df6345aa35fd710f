"""`threadline platforms`: the chat platforms that the gateway connects to."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from threadline.cli import render
from threadline.cli.config import File
from threadline.cli.options import AsJson, examples, parse_path
from threadline.errors import ConfigError, InvalidRequest, ThreadlineError
from threadline.texts import platforms as texts

if TYPE_CHECKING:
    from threadline.platforms.registry import PlatformSetup
    from threadline.ports.platform import Probed

_MAX_TOKEN_CHARS = 64 * 1024

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Chat platforms: see them, add one, try one out.")


class _PlatformRow(msgspec.Struct, frozen=True, kw_only=True):
    """A configured platform. `fault` says why its kind can't be used here, and is empty if it can."""

    name: str
    kind: str
    account: str
    enabled: bool
    fault: str


class _Token(msgspec.Struct, frozen=True):
    """A token, and its reference for the configuration. Without a reference the token is stored beside the configuration."""

    text: str
    reference: str | None = None

    def __repr__(self) -> str:
        return f"_Token('...', {self.reference!r})"


@app.command("list", epilog=examples("threadline platforms list", "threadline platforms list --json"))
def show(config: File = None, as_json: AsJson = False) -> None:
    """Show the configured platforms, and the kinds that can be added."""
    from threadline.config.load import load_config
    from threadline.platforms.registry import addable_platforms, unusable_reason

    kinds = addable_platforms()
    rows = [
        _PlatformRow(
            name=name, kind=table.kind, account=table.account, enabled=table.enabled, fault=unusable_reason(table.kind)
        )
        for name, table in load_config(config).platforms.items()
    ]
    if as_json:
        render.show_json({"platforms": rows, "kinds": kinds})
        return
    if rows:
        cells = [
            (row.name, row.kind, row.account, "yes" if row.enabled else "no", "no" if row.fault else "yes")
            for row in rows
        ]
        render.show_table(("Name", "Kind", "Account", "Enabled", "Installed"), cells)
    else:
        render.print_line(texts.NONE)
    for row in rows:
        if row.fault:
            render.print_note(f"{row.name}: {row.fault}.")
    render.print_note(texts.TO_ADD.format(kinds=", ".join(kinds)) if kinds else texts.NOTHING_TO_ADD)


@app.command(
    "add",
    epilog=examples(
        "threadline platforms add telegram",
        "threadline platforms add telegram --name family --token-env FAMILY_TOKEN",
        "pass show telegram | threadline platforms add telegram --token -",
    ),
)
def add(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Which platform it is, such as telegram.", show_default=False)
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What it is called here.", show_default="KIND")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="-", help="Read the token from standard input.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="The token is in this file and stays there.", parser=parse_path
        ),
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="NAME", help="The token is in this variable and stays there.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the platform's own; as often as you like."),
    ] = None,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Try it out before it is written down.")] = True,
    config: File = None,
    as_json: AsJson = False,
) -> None:
    """Add a platform to the configuration, after it was tried out.

    You are asked for the token. It is kept in a file of its own beside the configuration, which only you can read; the
    configuration refers to it. What stands in the configuration stays as it is.
    """
    from threadline.config.load import config_path

    config_name, file = name or kind, config_path(config)
    _require_free(file, config_name)
    own_options = _options(options or ())
    secret_token = _read_token(token, token_file, token_env)
    if secret_token is None and _needs_token(kind, config_name, own_options):
        secret_token = _Token(_prompt_token(config_name))
    settings = _settings(config_name, own_options, secret_token)
    probed = _probe(kind, settings) if check else None
    secret = _write(file, config_name, kind, own_options, secret_token)
    if as_json:
        render.show_json(
            {"name": config_name, "kind": kind, "path": str(file), "secret": secret, **_probe_json(probed)}
        )
        return
    if probed is not None:
        _print_probe(config_name, probed)
    render.print_line(texts.ADDED.format(name=config_name, file=file))
    if secret is not None:
        render.print_line(texts.KEPT.format(file=secret))
    if probed is None:
        render.print_note(texts.UNTRIED.format(name=config_name))
    render.print_note(texts.START)
    render.print_note(texts.PAIR)


@app.command("test", epilog=examples("threadline platforms test telegram", "threadline platforms test telegram --json"))
def run_test(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The platform, as `platforms list` shows it.", show_default=False)
    ],
    config: File = None,
    as_json: AsJson = False,
) -> None:
    """Try a configured platform out: who we are there, or what is wrong.

    Nothing is read and nothing is sent, so a gateway that runs is not disturbed. The exit code is 1 if it does not work.
    """
    from threadline.assembly import platform_settings
    from threadline.config.load import load_config

    configured = load_config(config).platforms
    if name not in configured:
        there = f"there are {', '.join(configured)}" if configured else "`threadline platforms add KIND` adds one"
        raise InvalidRequest(texts.NO_SUCH.format(name=name, known=there))
    try:
        probed = _probe(configured[name].kind, platform_settings(load_config(config), name))
    except ThreadlineError as cause:
        if not as_json:
            raise
        render.show_json({"name": name, "ok": False, "fault": str(cause), **_probe_json(None)})
        raise typer.Exit(1) from None
    if as_json:
        render.show_json({"name": name, "ok": True, "fault": "", **_probe_json(probed)})
    elif probed is None:
        render.print_line(texts.CANT_TELL.format(name=name))
    else:
        _print_probe(name, probed)


def _print_probe(name: str, probed: Probed) -> None:
    render.print_line(texts.WE_ARE.format(name=name, who=probed.who))
    for remark in probed.remarks:
        render.show_indented(remark)


def _probe_json(probed: Probed | None) -> dict[str, object]:
    return {"who": None if probed is None else probed.who, "remarks": [] if probed is None else list(probed.remarks)}


def _probe(kind: str, settings: PlatformSetup) -> Probed | None:
    from threadline.app import probe_platform

    return probe_platform(kind, settings)


def _require_free(file: Path, name: str) -> None:
    from threadline.config.settings import Slug
    from threadline.config.write import has_section

    try:
        # The name becomes part of a file name, too.
        msgspec.convert(name, Slug)
    except msgspec.ValidationError:
        raise typer.BadParameter(texts.BAD_NAME.format(name=name)) from None
    if has_section(file, ("platforms", name)):
        raise ConfigError(texts.TAKEN.format(name=name, file=file))


def _options(assignments: list[str] | tuple[()]) -> dict[str, object]:
    options: dict[str, object] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise typer.BadParameter(texts.BAD_OPTION.format(given=assignment))
        options[name] = _value(value)
    return options


def _value(text: str) -> object:
    """Parse a TOML value such as a number, a boolean or a list; any other text stays text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_token(token: str | None, file: Path | None, variable: str | None) -> _Token | None:
    from threadline.config.load import current_environment
    from threadline.config.secrets import Secret, resolve_secret

    if sum(source is not None for source in (token, file, variable)) > 1:
        raise typer.BadParameter(texts.ONE_IS_ENOUGH)
    if token is not None:
        if token != "-":  # noqa: S105 - no token
            raise typer.BadParameter(texts.SEEN_BY_ALL)
        return _Token(_require_token(sys.stdin.read(_MAX_TOKEN_CHARS)))
    if file is None and variable is None:
        return None
    secret = Secret(f"env:{variable}" if file is None else f"file:{file.absolute()}")
    return _Token(resolve_secret(secret, current_environment()), secret.reference)


def _prompt_token(name: str) -> str:
    typed = render.prompt_hidden(texts.ASK.format(name=name))
    if typed is None:
        raise InvalidRequest(texts.NOBODY_THERE)
    return _require_token(typed)


def _require_token(token: str) -> str:
    if not token.strip():
        raise InvalidRequest(texts.NONE_GIVEN)
    return token.strip()


def _needs_token(kind: str, name: str, options: dict[str, object]) -> bool:
    """Return whether the platform can't be made without a token."""
    from threadline.platforms.registry import UnknownPlatform, make_platform

    try:
        make_platform(kind, _settings(name, options, None))
    except UnknownPlatform:
        raise
    except InvalidRequest:
        return True
    return False


def _settings(name: str, options: dict[str, object], token: _Token | None) -> PlatformSetup:
    from threadline.config.load import current_environment
    from threadline.config.secrets import resolve_all
    from threadline.platforms.registry import PlatformSetup

    environment = current_environment()
    values = {key: resolve_all(value, environment) for key, value in options.items()}
    return PlatformSetup(name, options=values if token is None else values | {"token": token.text})


def _write(file: Path, name: str, kind: str, options: dict[str, object], token: _Token | None) -> str | None:
    """Append the section to the configuration. Return the path of the token file, if one was made."""
    from threadline.config.write import append_section, store_secret

    values: dict[str, object] = {"kind": kind} if name != kind else {}
    if token is None or token.reference is not None:
        reference = {} if token is None else {"token": token.reference}
        append_section(file, ("platforms", name), values | reference | options)
        return None
    beside = file.absolute().parent / f"{name}.token"
    try:
        store_secret(beside, token.text)
    except FileExistsError:
        raise ConfigError(texts.KEPT_ALREADY.format(file=beside)) from None
    try:
        append_section(file, ("platforms", name), values | {"token": f"file:{beside}"} | options)
    except ConfigError:
        beside.unlink(missing_ok=True)
        raise
    return str(beside)
