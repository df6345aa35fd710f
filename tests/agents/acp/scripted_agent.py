"""An ACP agent that does what a prompt says, for tests: a program of its own on plain lines, without any library.

Its one argument is JSON: what it can do (`resume`, `load`, `image`, `auth` ...), and the `folder` where it keeps its sessions and
a log of all that it was told. The first word of a prompt's last text says what happens; any other is repeated.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

SETUP: dict[str, Any] = json.loads(sys.argv[1])
FOLDER = Path(SETUP["folder"])
OUT = sys.stdout.buffer
Script = Callable[[str, str, dict[str, Any]], Any]
WRITING = threading.Lock()
NUMBERS = count(1)
WAITING: dict[str, queue.Queue[dict[str, Any]]] = {}
CANCELLED: dict[str, threading.Event] = {}
SIGNED_IN = threading.Event()
CHOSEN: dict[str, str] = {"mode": "ask", "model": "small", **SETUP.get("chosen", {})}
SELECTS = {"mode": ["ask", "plan"], "model": ["small", "large"]}


def write(message: dict[str, Any]) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode())


def raw(line: bytes) -> None:
    with WRITING:
        OUT.write(line + b"\n")
        OUT.flush()


def note(what: str, value: Any = None) -> None:
    with (FOLDER / "log").open("a") as log:
        log.write(json.dumps([what, value]) + "\n")


def update(session: str, kind: str, /, **fields: Any) -> None:
    write({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}})


def say(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Asks the client, and its whole answer."""
    number = f"ask-{next(NUMBERS)}"
    WAITING[number] = queue.Queue()
    write({"id": number, "method": method, "params": params})
    return WAITING[number].get()


def permission(session: str, call: dict[str, Any], kinds: Iterable[str], names: Mapping[str, str] = {}) -> Any:
    options = [{"optionId": f"o-{kind}", "name": names.get(kind, kind), "kind": kind} for kind in kinds]
    answer = request("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})
    return answer.get("result", answer).get("outcome", answer)


def config_options() -> list[dict[str, Any]]:
    return [
        {
            "id": f"the-{name}",
            "name": name,
            "category": name,
            "type": "select",
            "currentValue": CHOSEN[name],
            "options": [{"value": value, "name": value.title()} for value in values],
        }
        for name, values in SELECTS.items()
    ]


def state() -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if SETUP.get("options"):
        shown["configOptions"] = config_options()
    if SETUP.get("modes"):
        modes = [{"id": one, "name": one} for one in SELECTS["mode"]]
        shown["modes"] = {"currentModeId": CHOSEN["mode"], "availableModes": modes}
    if SETUP.get("models"):
        models = [{"modelId": one, "name": one} for one in SELECTS["model"]]
        shown["models"] = {"currentModelId": CHOSEN["model"], "availableModels": models}
    return shown


class Refused(Exception):
    def __init__(self, code: int, message: str = "no") -> None:
        super().__init__(message)
        self.code = code


def initialize(params: dict[str, Any]) -> Any:
    if SETUP.get("mute"):
        time.sleep(1000)
    sessions: dict[str, Any] = {name: {} for name in ("resume", "close") if SETUP.get(name)}
    return {
        "protocolVersion": SETUP.get("version", 1),
        "agentCapabilities": {
            "loadSession": bool(SETUP.get("load")),
            "promptCapabilities": {"image": bool(SETUP.get("image"))},
            "sessionCapabilities": sessions,
        },
        "authMethods": SETUP.get("auth", []),
    }


def authenticate(params: dict[str, Any]) -> Any:
    if SETUP.get("no_auth_works"):
        raise Refused(-32603, "wrong key")
    SIGNED_IN.set()
    return {}


def new(params: dict[str, Any]) -> Any:
    if SETUP.get("auth") and not SIGNED_IN.is_set():
        raise Refused(-32000, "sign in")
    if SETUP.get("no_servers") and params["mcpServers"]:
        raise Refused(-32602, "no servers, please")
    session = SETUP.get("same_name") or f"s-{os.getpid()}-{next(NUMBERS)}"
    (FOLDER / f"{session}.session").write_text(json.dumps({"cwd": params["cwd"]}))
    return {"sessionId": session, **state()}


def again(params: dict[str, Any]) -> Any:
    if not (FOLDER / f"{params['sessionId']}.session").exists():
        raise Refused(SETUP.get("gone", -32002), "no such session")
    return {} if SETUP.get("terse") else state()


def resume(params: dict[str, Any]) -> Any:
    if (FOLDER / "model").exists():
        CHOSEN["model"] = (FOLDER / "model").read_text()
    fault = SETUP.get("resume_fails")
    if fault == "mute":
        time.sleep(1000)
    if fault == "odd":
        return "what?"
    if fault is not None:
        raise Refused(fault, "not now")
    return again(params)


def load(params: dict[str, Any]) -> Any:
    found = again(params)
    if SETUP.get("late"):
        threading.Thread(target=replay, args=(params["sessionId"], 0.05)).start()
    else:
        replay(params["sessionId"], 0.0)
    return found


def replay(session: str, pause: float) -> None:
    for number in range(3):
        time.sleep(pause)
        say(session, f"replayed {number}")


def set_mode(params: dict[str, Any]) -> Any:
    CHOSEN["mode"] = params["modeId"]
    return {}


def set_model(params: dict[str, Any]) -> Any:
    if SETUP.get("no_set_model"):
        raise Refused(-32601, "no such method")
    CHOSEN["model"] = params["modelId"]
    return {}


def set_option(params: dict[str, Any]) -> Any:
    CHOSEN[params["configId"].removeprefix("the-")] = params["value"]
    return {"configOptions": config_options()}


def prompt(params: dict[str, Any]) -> Any:
    session = params["sessionId"]
    CANCELLED[session] = threading.Event()
    texts = [block["text"] for block in params["prompt"] if block["type"] == "text"]
    said = SETUP.get("always") or next((text for text in reversed(texts) if not text.startswith("[")), texts[-1])
    said = said.removeprefix(said[: said.find("]\n") + 2]) if said.startswith("[in answer to") else said
    word, _, rest = said.partition(" ")
    script: Script = SCRIPTS.get(word, echo)
    answer = script(session, said if script is echo else rest, params)
    if answer is None:
        answer = {"stopReason": "cancelled" if CANCELLED[session].is_set() else "end_turn"}
    return answer


def echo(session: str, text: str, _: Any) -> None:
    middle = len(text) // 2
    for part in (text[:middle], text[middle:]):
        say(session, part)


def think(session: str, text: str, _: Any) -> None:
    update(session, "agent_thought_chunk", content={"type": "text", "text": text})
    say(session, "thought")


def tool(session: str, text: str, _: Any) -> None:
    title = "\x1b[31mRun\x1b[0m it"
    update(session, "tool_call", toolCallId="t1", title=title, kind="execute", status="pending", rawInput={})
    update(session, "tool_call_update", toolCallId="t1", status="in_progress", rawInput={"command": text})
    content = [
        {"type": "content", "content": {"type": "text", "text": "it ran"}},
        {"type": "diff", "path": "/a.txt", "oldText": "old", "newText": "new"},
    ]
    locations = [{"path": "/a.txt", "line": 3}]
    update(session, "tool_call_update", toolCallId="t1", status="completed", content=content, locations=locations)
    update(session, "tool_call_update", toolCallId="t1", status="failed")
    update(session, "tool_call", toolCallId="t2", title="Look", kind="surprising", status="pending")
    update(session, "tool_call_update", toolCallId="t2", status="failed", rawOutput="no such file")
    say(session, "done")


def ask(session: str, text: str, _: Any) -> None:
    kinds = text.split() or ["allow_once", "allow_always", "reject_once"]
    call = {"toolCallId": "t1", "title": "Remove all", "kind": "execute", "rawInput": {"command": "rm -r /tmp/x"}}
    say(session, "before ")
    outcome = permission(session, call, kinds)
    note("outcome", outcome)
    say(session, "after")


def edit(session: str, text: str, _: Any) -> None:
    """A change that is announced, asked for with all that is known of it, and made."""
    places, change = [{"path": "/a.txt", "line": 3}], {"path": "/a.txt", "old": "old", "new": "new"}
    diff = {"type": "diff", "path": "/a.txt", "oldText": "old", "newText": "new"}
    update(session, "tool_call", toolCallId=text, title="Edit a.txt", kind="edit", status="pending")
    call = {"toolCallId": text, "rawInput": change, "locations": places, "content": [diff]}
    outcome = permission(session, call, ["allow_once", "reject_once"])
    status = "completed" if outcome.get("optionId") == "o-allow_once" else "failed"
    update(session, "tool_call_update", toolCallId=text, status=status)
    say(session, "done")


def lie(session: str, text: str, _: Any) -> None:
    call = {"toolCallId": "t1", "title": "Harmless\u202e\n\x1b[2J", "kind": "delete", "rawInput": {"path": "/"}}
    names = json.loads(text) if text else dict.fromkeys(["allow_always", "reject_once"], "No, never do that")
    note("outcome", permission(session, call, names, names))
    say(session, "done")


def askmany(session: str, text: str, _: Any) -> None:
    def one(number: int) -> None:
        call = {"toolCallId": f"t{number}", "title": f"Call {number}", "kind": "edit"}
        note("outcome", [number, permission(session, call, ["allow_once", "reject_once"])])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(int(text))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(session, "all answered")


def asklong(session: str, text: str, _: Any) -> None:
    call = {"toolCallId": "t1", "title": "Write", "kind": "edit", "rawInput": {"path": "/a", "content": "x" * 100_000}}
    note("outcome", permission(session, call, ["allow_once", "reject_once"]))
    say(session, "done")


def wait(session: str, text: str, _: Any) -> None:
    with (FOLDER / "signals").open("w") as signals:
        signals.write("started\n")
        signals.flush()
        say(session, "begun")
        CANCELLED[session].wait()
        signals.write("stopped\n")


def hang(session: str, text: str, _: Any) -> None:
    say(session, "begun")
    note("hanging")
    CANCELLED[session].wait()


def deaf(session: str, text: str, _: Any) -> None:
    say(session, "begun")
    note("deaf", os.getpid())
    time.sleep(1000)


def slow(session: str, text: str, _: Any) -> None:
    time.sleep(0.5)
    say(session, text)


def die(session: str, text: str, _: Any) -> None:
    say(session, "half")
    sys.stderr.write("\x1b[31mout of luck\x1b[0m\n")
    sys.stderr.flush()
    os._exit(3)


def orphan(session: str, text: str, _: Any) -> None:
    """It ends, and what it has started keeps its output open."""
    say(session, "half")
    subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    os._exit(3)


def garbage(session: str, text: str, _: Any) -> None:
    lines = [
        b"npm WARN deprecated",
        b"[1, 2]",
        b'"text"',
        b"\xff\xfe",
        b"{",
        b"",
        b"null",
        b"{}",
        b'{"id": 77, "result": 1}',
    ]
    for number in range(int(text)):
        raw(lines[number % len(lines)])
    say(session, "clean")


def noise(session: str, text: str, _: Any) -> None:
    for _number in range(int(text)):
        raw(b"Loading...")
    say(session, "clean")


def flood(session: str, text: str, _: Any) -> None:
    while not CANCELLED[session].is_set():
        say(session, "y" * 1000)


def calls(session: str, text: str, _: Any) -> None:
    for number in range(int(text)):
        update(session, "tool_call", toolCallId=f"t{number}", title="x", kind="read", status="completed")


def stray(session: str, text: str, _: Any) -> None:
    say("somebody-elses", "from another session")
    params = {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk"}}
    params["update"]["content"] = {"type": "text", "text": "mine"}  # type: ignore[index]
    params["_meta"] = {"sessionId": "somebody-elses", "update": {"sessionUpdate": "plan", "entries": []}}
    write({"method": "session/update", "params": params})
    update(session, "surprise", of="ours")
    call = {"toolCallId": "t9", "title": "x"}
    note("outcome", permission("somebody-elses", call, ["allow_once"]))


def twice(session: str, text: str, _: Any) -> None:
    say(session, "once")
    note("twice")


def stop(session: str, text: str, _: Any) -> Any:
    say(session, "so far")
    return {"stopReason": text}


def news(session: str, text: str, _: Any) -> Any:
    update(session, "plan", entries=[{"content": "First", "priority": "high", "status": "completed"}])
    entries = [
        {"content": "First", "priority": "high", "status": "completed"},
        {"content": "Then\x1b[1m", "status": "odd"},
    ]
    update(session, "plan", entries=entries)
    update(session, "session_info_update", title="\x1b]0;owned\x07A walk\u202e in the rain")
    update(session, "usage_update", used=1200, size=200000, cost={"amount": 0.25, "currency": "USD"})
    update(session, "available_commands_update", availableCommands=[])
    say(session, "told")
    usage = {"totalTokens": 30, "inputTokens": 10, "outputTokens": 20, "cachedReadTokens": 5, "thoughtTokens": -3}
    return {"stopReason": "end_turn", "usage": usage}


def unserved(session: str, text: str, _: Any) -> None:
    answer = request("fs/read_text_file", {"sessionId": session, "path": "/etc/passwd"})
    say(session, str(answer["error"]["code"]))


def spam(session: str, text: str, _: Any) -> None:
    """What nobody here has any use for, so many times, or without end."""
    kind, times = text.split()
    for number in count() if times.startswith("on") else range(int(times)):
        unwanted: dict[str, dict[str, Any]] = {
            "notifications": {"method": "_surprise/told", "params": {}},
            "requests": {"id": f"spam-{number}", "method": "terminal/create", "params": {}},
            "questions": {"id": f"spam-{number}", "method": "session/request_permission", "params": {"options": 7}},
            "answers": {"id": 10_000 + number, "result": {}},
            "objects": {"foo": number},
            "cancels": {"method": "$/cancel_request", "params": {"requestId": number}},
        }
        write(unwanted[kind])
        if times == "on-and-words" and number % 1_000 == 0:
            say(session, "still here")
    say(session, "clean")


def malformed(session: str, text: str, _: Any) -> None:
    answer = request("session/request_permission", {"sessionId": session, "toolCall": "none"})
    say(session, str(answer["error"]["code"]))


def where(session: str, text: str, _: Any) -> None:
    kept = json.loads((FOLDER / f"{session}.session").read_text())
    shown = {"env": sorted(os.environ), "cwd": kept["cwd"], "here": str(Path.cwd()), "pid": os.getpid()}
    say(session, json.dumps(shown))


def blocks(session: str, text: str, params: dict[str, Any]) -> None:
    say(session, json.dumps(params["prompt"]))


def breed(session: str, text: str, _: Any) -> None:
    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    say(session, str(child.pid))


def huge(session: str, text: str, _: Any) -> None:
    raw(b'{"jsonrpc": "2.0", "method": "' + b"x" * (65 * 1024 * 1024) + b'"}')
    say(session, "small again")


def picture(session: str, text: str, _: Any) -> None:
    update(session, "agent_message_chunk", content={"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"})
    say(session, "look")


def chatter(session: str, text: str, _: Any) -> None:
    """More on its standard error than a pipe holds."""
    for _number in range(2000):
        sys.stderr.write("\x1b[31m" + "log " * 50 + "\n")
    sys.stderr.flush()
    say(session, "still here")


def fail(session: str, text: str, _: Any) -> None:
    raise Refused(int(text), "a fault of\x1b[31m mine")


NAMES = (
    "think tool ask edit lie askmany asklong wait hang deaf slow die orphan garbage noise "
    "flood calls stray twice stop news unserved spam malformed where blocks breed huge picture chatter fail"
)
SCRIPTS: dict[str, Script] = {name: globals()[name] for name in NAMES.split()}
METHODS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "initialize": initialize,
    "authenticate": authenticate,
    "session/new": new,
    "session/resume": resume,
    "session/load": load,
    "session/set_mode": set_mode,
    "session/set_model": set_model,
    "session/set_config_option": set_option,
    "session/prompt": prompt,
}


def serve(number: Any, method: str, params: dict[str, Any]) -> None:
    try:
        answer = {"id": number, "result": METHODS[method](params)}
    except Refused as cause:
        answer = {"id": number, "error": {"code": cause.code, "message": str(cause)}}
    write(answer)
    if method == "session/prompt" and params["prompt"][-1].get("text") == "twice":
        write(answer)


def main() -> None:
    note("started", os.getpid())
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            if message["id"] in WAITING:
                WAITING[message["id"]].put(message)
            continue
        note(message["method"], message.get("params"))
        if message["method"] == "session/cancel":
            CANCELLED[message["params"]["sessionId"]].set()
        elif "id" in message:
            arguments = (message["id"], message["method"], message["params"])
            threading.Thread(target=serve, args=arguments, daemon=True).start()
    note("end of input")
    if (FOLDER / "signals").exists():
        (FOLDER / "signals").write_text("stopped\n")
    if SETUP.get("stubborn"):
        time.sleep(1000)
    os._exit(0)


if __name__ == "__main__":
    main()
