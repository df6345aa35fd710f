"""What an IRC server and its clients say to each other, one line each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from threadline.model.inbound import Inbound, Unreadable
from threadline.model.source import SessionSource

# A line has 512 bytes. The server puts our full name before it and passes it on with the name of the chat: both may be long.
MOST_BYTES = 350

_LINE = re.compile(r"(?:@\S+ +)?(?::(?P<nick>[^\s!]+)\S* +)?(?P<command>[A-Za-z]+|\d{3})(?P<rest>(?: .*)?)")
_PARAMETER = re.compile(r" +(?::(?P<last>.*)|(?P<word>[^ ]+))")
_COLOURS = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_ACTION = re.compile(r"\x01ACTION (.*?)\x01?")
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f]")


class Line(msgspec.Struct, frozen=True):
    """A line as it was said: by whom, which command or number, and its parameters."""

    nick: str
    command: str
    params: tuple[str, ...] = ()

    def param(self, place: int) -> str:
        """The parameter at that place; empty where there is none."""
        return self.params[place] if place < len(self.params) else ""


def read_line(raw: bytes) -> Line | None:
    """What a line says; `None` where it says nothing. Not everybody writes UTF-8."""
    try:
        text = raw.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        text = raw.rstrip(b"\r\n").decode("latin-1")
    if (found := _LINE.fullmatch(text)) is None:
        return None
    params = tuple(one["word"] or one["last"] or "" for one in _PARAMETER.finditer(found["rest"]))
    return Line(found["nick"] or "", found["command"].upper(), params)


def write_line(command: str, *params: str) -> bytes:
    """The line for a command. Nothing in its parameters can begin another."""
    *words, last = [_UNSENDABLE.sub("", param) for param in (command, *params)]
    return " ".join([*words, f":{last}" if params else last]).encode() + b"\r\n"


def lines_of(text: str) -> Iterator[str]:
    """A text as people on IRC get to see it: a message a line, and none that is empty."""
    for line in text.splitlines():
        if seen := _UNSENDABLE.sub("", line).rstrip():
            yield seen


def read_message(
    line: Line, us: str, *, platform: str, account: str, number: str, at: datetime
) -> Inbound | Unreadable | None:
    """What somebody said, in a channel or to us alone; `None` for what is no word to anybody.

    IRC numbers nothing, so `number` is ours, and the same line is never told again.
    """
    if line.command != "PRIVMSG" or same_nick(line.nick, us):
        return None
    place, text = line.param(0), line.param(1)
    if not line.nick or not text:
        reason = "a message without a sender or a text"
        return Unreadable(platform=platform, account=account, raw=repr(line), reason=reason, dedupe_key=number)
    if (action := _ACTION.fullmatch(text)) is not None:
        text = action[1]
    elif text.startswith("\x01"):
        return None
    is_channel = place[:1] in ("#", "&", "+", "!")
    text, is_addressed = _addressed(_COLOURS.sub("", text), us)
    source = SessionSource(
        platform=platform,
        account=account,
        chat_id=folded(place if is_channel else line.nick),
        chat_type="group" if is_channel else "dm",
        chat_name=place if is_channel else None,
        user_id=folded(line.nick),
        user_name=line.nick,
    )
    is_ours = is_addressed or not is_channel
    return Inbound(dedupe_key=number, message_id=number, source=source, sent_at=at, text=text, mentions_us=is_ours)


def same_nick(one: str, other: str) -> bool:
    """Whether both are the same person's."""
    return folded(one) == folded(other)


def folded(name: str) -> str:
    """A nick or a channel as the server compares them."""
    return name.lower().translate(str.maketrans("[]\\~", "{}|^"))


def _addressed(text: str, us: str) -> tuple[str, bool]:
    """The text without our name before it, and whether we are named in it."""
    if first := re.match(rf"@?{re.escape(us)}\s*[:,]\s*(?=\S)", text, re.IGNORECASE):
        return text[first.end() :], True
    return text, re.search(rf"(?<![\w-]){re.escape(us)}(?![\w-])", text, re.IGNORECASE) is not None
