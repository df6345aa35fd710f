"""What a fuzzed editor sends: params that fit, of sessions that there are, and then up to two things in them damaged."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.acp.editor_world import CWD

from threadline.gateway.command_table import TABLE
from threadline.texts.editors import MODES

Params: TypeAlias = dict[str, Any]
Make: TypeAlias = "Callable[[random.Random, Known], Params]"

# The words that `fuzzed_editor.FuzzedAgent` acts on.
SAYINGS = ("hi", "slow", "ask", "ask", "ask slow", "endless", "tool", "fail", "break", "named", "a\ud800b", "*" * 3000)
COMMANDS = [f"/{name}{argument}" for name in [*TABLE, "nothing"] for argument in ("", " 1", " ABCD")]
_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_UNKNOWN = ("20200101_000000_0123456789ab", "x", "")
_DEEP = 200
_HUGE = 200_000


class Known:
    """What an editor has learned from answers, for its next requests."""

    def __init__(self) -> None:
        # Those that it works in now, the last one last, all others, and those that are gone.
        self.near: list[str] = []
        self.far: list[str] = []
        self.gone: list[str] = []
        # Where a prompt waits.
        self.busy: set[str] = set()
        self.cursors: list[str] = []
        # Options with the values that they were offered with.
        self.options: dict[str, list[str]] = {"mode": list(MODES)}

    def session(self, chance: random.Random) -> str:
        """Mostly one that it works in: what happens at once should happen in the same place."""
        drawn = chance.random()
        if drawn < 0.8 and self.near:
            return chance.choice(self.near[-3:])
        if drawn < 0.92 and self.far:
            return chance.choice(self.far)
        return chance.choice([*_UNKNOWN, *self.gone[-2:]])

    def learn(self, method: str, params: Any, result: Params) -> None:
        """Takes over what an answer tells."""
        if method in ("session/new", "session/fork"):
            self.near.append(result["sessionId"])
        elif method == "session/list" and result.get("nextCursor"):
            self.cursors.append(result["nextCursor"])
        elif method == "session/delete":
            gone = params["sessionId"]
            self.near, self.far = ([one for one in many if one != gone] for many in (self.near, self.far))
            self.gone.append(gone)
        for option in result.get("configOptions") or ():
            self.options[option["id"]] = [choice["value"] for choice in option["options"]]


def _place(chance: random.Random) -> Params:
    servers = [
        {"name": "files", "command": "/bin/true", "args": ["-v"], "env": [{"name": "A", "value": "b"}]},
        {"type": "http", "name": "web", "url": "http://127.0.0.1:1/", "headers": []},
    ]
    place: Params = {"cwd": chance.choice([CWD, CWD, CWD, "/", "relative"]), "mcpServers": []}
    if chance.random() < 0.3:
        place["mcpServers"] = chance.sample(servers, chance.randint(1, 2))
    if chance.random() < 0.2:
        place["additionalDirectories"] = [chance.choice(["/tmp", "/home/ada/other", "beside"])]
    return place


def _at(chance: random.Random, known: Known) -> Params:
    return {"sessionId": known.session(chance), **_place(chance)}


def _one(chance: random.Random, known: Known) -> Params:
    return {"sessionId": known.session(chance)}


def _initialize(chance: random.Random, _: Known) -> Params:
    notices: Params = {"session": {"notices": {}}} if chance.random() < 0.5 else {}
    return {"protocolVersion": chance.choice([1, 1, 2, 99]), "clientCapabilities": {"terminal": True, **notices}}


def _list(chance: random.Random, known: Known) -> Params:
    wanted: Params = {}
    if chance.random() < 0.3:
        wanted["cwd"] = chance.choice([CWD, "/", "/nowhere"])
    if chance.random() < 0.6:
        wanted["cursor"] = chance.choice(known.cursors or ["made up"])
    return wanted


def _set_mode(chance: random.Random, known: Known) -> Params:
    return {"sessionId": known.session(chance), "modeId": chance.choice([*MODES, "ask", "ask", "x"])}


def _set_option(chance: random.Random, known: Known) -> Params:
    option = chance.choice(list(known.options))
    # A mode that answers by itself would leave the editor without questions to answer.
    values = ["ask"] if option == "mode" and chance.random() < 0.7 else [*known.options[option], "other"]
    return {"sessionId": known.session(chance), "configId": option, "value": chance.choice(values)}


def _prompt(chance: random.Random, known: Known) -> Params:
    text = chance.choice(COMMANDS if chance.random() < 0.2 else SAYINGS)
    blocks = [{"type": "text", "text": text}]
    if chance.random() < 0.3:
        blocks += chance.choices(_blocks(chance), k=chance.randint(1, 2))
    # One that is busy refuses it; that is asked for now and then.
    idle = [session for session in known.near[-6:] if session not in known.busy]
    session = chance.choice(idle) if idle and chance.random() < 0.7 else known.session(chance)
    return {"sessionId": session, "prompt": blocks}


def _blocks(chance: random.Random) -> list[Params]:
    uri = chance.choice(["file:///home/ada/a.py", "https://example.org/b?c=d#e", "a b[c](d)", "file://[", "\u202e"])
    return [
        {"type": "text", "text": chance.choice(["and more", "", "\u0000\u001b[31m", "```\n" * 5])},
        {"type": "image", "mimeType": "image/png", "data": chance.choice([_PICTURE, _PICTURE, "?", ""]), "uri": uri},
        {"type": "resource_link", "name": "b", "uri": uri, "size": 3},
        {"type": "resource", "resource": {"uri": uri, "text": "```\nlines\n````"}},
        {"type": "resource", "resource": {"uri": uri, "blob": "AAEC", "mimeType": "application/x-odd"}},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
    ]


# How often each method is drawn, and its params; every request that an agent can be sent is here.
REQUESTS: dict[str, tuple[int, Make]] = {
    "initialize": (1, _initialize),
    "authenticate": (1, lambda *_: {"methodId": "none"}),
    "logout": (1, lambda *_: {}),
    "session/new": (4, lambda chance, _: _place(chance)),
    "session/load": (5, _at),
    "session/resume": (3, _at),
    "session/fork": (3, _at),
    "session/list": (4, _list),
    "session/close": (2, _one),
    "session/delete": (2, _one),
    "session/set_mode": (2, _set_mode),
    "session/set_model": (1, lambda chance, known: {**_one(chance, known), "modelId": "m"}),
    "session/set_config_option": (3, _set_option),
    "session/prompt": (22, _prompt),
}


def drawn_request(chance: random.Random, known: Known) -> tuple[str, Any]:
    """A method and its params, as they are or damaged."""
    method = chance.choices(list(REQUESTS), [weight for weight, _ in REQUESTS.values()])[0]
    return method, damaged(chance, REQUESTS[method][1](chance, known))


def damaged(chance: random.Random, params: Any) -> Any:
    """The same, or with one or two things in it that don't belong there."""
    params = copy.deepcopy(params)
    for _ in range(chance.choice([0, 0, 0, 0, 0, 1, 1, 2])):
        places = list(_places(params))
        if not places:
            return odd_value(chance)
        inside, key = chance.choice(places)
        match chance.randrange(4):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                inside[chance.choice(["unknown", "_meta", "__proto__"])] = hostile_meta(chance)
            case _:
                inside[key] = odd_value(chance)
    return params if chance.random() < 0.97 else odd_value(chance)


def hostile_meta(chance: random.Random) -> Any:
    """What somebody may put where anything may stand, named like what is read elsewhere."""
    named = {"sessionId": "x", "prompt": None, "requestId": 1, "cwd": 7, "outcome": {"outcome": "selected"}}
    return chance.choice([named, {"_meta": named}, [named], odd_value(chance)])


def odd_value(chance: random.Random) -> Any:
    """A value of any type, small or huge or deep."""
    deep: Any = "end"
    for _ in range(_DEEP):
        deep = [deep] if chance.random() < 0.5 else {"deep": deep}
    small: list[Any] = [
        None,
        True,
        -1,
        0.5,
        10**30,
        "",
        "/",
        "\ud800",
        "\u0000",
        [],
        [[]],
        {},
        {"type": "text"},
        {"": None},
    ]
    return chance.choice([*small, "x" * _HUGE, [{}] * 1000, deep])


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All fields and items, however deep, each with what it is in."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [place for inner in value.values() for place in _places(inner)]
    if isinstance(value, list):
        return [(value, at) for at in range(len(value))] + [place for inner in value for place in _places(inner)]
    return []
