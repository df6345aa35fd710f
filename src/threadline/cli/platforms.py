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
from threadline.cli.options import AsJson, examples
from threadline.cli.values import parse_path
from threadline.errors import ConfigError, InvalidRequest, ThreadlineError
from threadline.texts import platforms as texts

if TYPE_CHECKING:
    from threadline.platforms.registry import PlatformSetup
    from threadline.ports.platform import Probed

_LONGEST_TOKEN = 64 * 1024

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Chat platforms: see them, add one, try one out.")


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A configured platform. `fault`: why its kind can't be used here."""

    name: str
    kind: str
    account: str
    enabled: bool
    fault: str


class _Token(msgspec.Struct, frozen=True):
    """A token, and the place that the configuration refers to; without one it is kept in a file beside the configuration."""

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
    lines = [
        _Line(name=name, kind=one.kind, account=one.account, enabled=one.enabled, fault=unusable_reason(one.kind))
        for name, one in load_config(config).platforms.items()
    ]
    if as_json:
        render.show_json({"platforms": lines, "kinds": kinds})
        return
    if lines:
        rows = [
            (one.name, one.kind, one.account, "yes" if one.enabled else "no", "no" if one.fault else "yes")
            for one in lines
        ]
        render.show_table(("Name", "Kind", "Account", "Enabled", "Installed"), rows)
    else:
        render.say(texts.NONE)
    for one in lines:
        if one.fault:
            render.note(f"{one.name}: {one.fault}.")
    render.note(texts.TO_ADD.format(kinds=", ".join(kinds)) if kinds else texts.NOTHING_TO_ADD)


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

    called, file = name or kind, config_path(config)
    _require_free(file, called)
    chosen = _options(options or ())
    given = _given_token(token, token_file, token_env)
    if given is None and _wants_token(kind, called, chosen):
        given = _Token(_asked_token(called))
    settings = _settings(called, chosen, given)
    found = _probed(kind, settings) if check else None
    secret = _write(file, called, kind, chosen, given)
    if as_json:
        render.show_json({"name": called, "kind": kind, "path": str(file), "secret": secret, **_found(found)})
        return
    if found is not None:
        _show_found(called, found)
    render.say(texts.ADDED.format(name=called, file=file))
    if secret is not None:
        render.say(texts.KEPT.format(file=secret))
    if found is None:
        render.note(texts.UNTRIED.format(name=called))
    render.note(texts.START)
    render.note(texts.PAIR)


@app.command("test", epilog=examples("threadline platforms test telegram", "threadline platforms test telegram --json"))
def try_out(
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

    known = load_config(config).platforms
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "`threadline platforms add KIND` adds one"
        raise InvalidRequest(texts.NO_SUCH.format(name=name, known=there))
    try:
        found = _probed(known[name].kind, platform_settings(load_config(config), name))
    except ThreadlineError as cause:
        if not as_json:
            raise
        render.show_json({"name": name, "ok": False, "fault": str(cause), **_found(None)})
        raise typer.Exit(1) from None
    if as_json:
        render.show_json({"name": name, "ok": True, "fault": "", **_found(found)})
    elif found is None:
        render.say(texts.CANT_TELL.format(name=name))
    else:
        _show_found(name, found)


def _show_found(name: str, found: Probed) -> None:
    render.say(texts.WE_ARE.format(name=name, who=found.who))
    for remark in found.remarks:
        render.show_indented(remark)


def _found(found: Probed | None) -> dict[str, object]:
    return {"who": None if found is None else found.who, "remarks": [] if found is None else list(found.remarks)}


def _probed(kind: str, settings: PlatformSetup) -> Probed | None:
    from threadline.app import probe_platform

    return probe_platform(kind, settings)


def _require_free(file: Path, name: str) -> None:
    from threadline.config.settings import Slug
    from threadline.config.write import has_section

    try:
        # It is to be the name of a file, too.
        msgspec.convert(name, Slug)
    except msgspec.ValidationError:
        raise typer.BadParameter(texts.BAD_NAME.format(name=name)) from None
    if has_section(file, ("platforms", name)):
        raise ConfigError(texts.TAKEN.format(name=name, file=file))


def _options(given: list[str] | tuple[()]) -> dict[str, object]:
    found: dict[str, object] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise typer.BadParameter(texts.BAD_OPTION.format(given=one))
        found[name] = _value(value)
    return found


def _value(text: str) -> object:
    """A number, a switch or a list as TOML writes it; anything else is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _given_token(token: str | None, file: Path | None, variable: str | None) -> _Token | None:
    from threadline.config.load import current_environment
    from threadline.config.secrets import Secret, resolve_secret

    if sum(one is not None for one in (token, file, variable)) > 1:
        raise typer.BadParameter(texts.ONE_IS_ENOUGH)
    if token is not None:
        if token != "-":  # noqa: S105 - no token
            raise typer.BadParameter(texts.SEEN_BY_ALL)
        return _Token(_required(sys.stdin.read(_LONGEST_TOKEN)))
    if file is None and variable is None:
        return None
    secret = Secret(f"env:{variable}" if file is None else f"file:{file.absolute()}")
    return _Token(resolve_secret(secret, current_environment()), secret.reference)


def _asked_token(name: str) -> str:
    typed = render.ask_hidden(texts.ASK.format(name=name))
    if typed is None:
        raise InvalidRequest(texts.NOBODY_THERE)
    return _required(typed)


def _required(token: str) -> str:
    if not token.strip():
        raise InvalidRequest(texts.NONE_GIVEN)
    return token.strip()


def _wants_token(kind: str, name: str, options: dict[str, object]) -> bool:
    """Whether the platform can't be made from the rest."""
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
    """Writes it all down; the file with the token, where one was made."""
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
