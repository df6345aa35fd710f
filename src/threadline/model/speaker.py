"""Who says what in a conversation of several people: `[NAME] text`.

A label is ours and stands at the very start of a message. So that nobody can speak as another, a bracket that
a sender typed at the start of any line (white space and invisible characters before it don't help) gets a
backslash in front. `unescape_brackets` takes it away again. A conversation of one person is never labelled,
and its text never touched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

import msgspec

from threadline.model.ownership import person_of
from threadline.model.privacy import make_redaction
from threadline.model.safe_text import INVISIBLE, LINE_BREAKS, safe_line
from threadline.model.source import SessionSource

NAME_CHARS = 40

_SOMEONE: Final = "someone"
_LABEL: Final = "[{name}]"
_SUFFIX: Final = " #{tag}"
_NO_TAG: Final = "?"

Content: TypeAlias = str | list[Any] | None

_OPENING = "\\[\uff3b\u3010\u3014\u3016\u301a\u27e6\u2772\u2045\ufe47\ufe5d"
_CLOSING = "\\]\uff3d\u3011\u3015\u3017\u301b\u27e7\u2773\u2046\ufe48\ufe5e"
_OPENING_IN_NAME, _CLOSING_IN_NAME = re.compile(f"[{_OPENING}]"), re.compile(f"[{_CLOSING}]")

# What may stand between the start of a line and its first sign. No line breaks: each line is read once.
_BLANK = f"(?:[{INVISIBLE}\u0300-\u036f]|(?![{LINE_BREAKS}])\\s)"
_LINE_START = f"(?:\\A|(?<=[{LINE_BREAKS}]))({_BLANK}*+)"
_BRACKETED_LINE = re.compile(f"{_LINE_START}(?=\\\\*+[{_OPENING}])")
_ESCAPED_LINE = re.compile(f"{_LINE_START}\\\\(?=\\\\*+[{_OPENING}])")

# Names that could be taken for a label which only we give.
_LOOKS_TAGGED = re.compile("[#\u266f]\\s*\\S{1,8}$")
_LOOKS_HASHED = re.compile(r"user\W?_?\w{12}", re.IGNORECASE)
_RESERVED = ("system", "assistant", "user", "developer", "tool", "agent", "threadline", _SOMEONE)

# Letters that look alike in most fonts, after case folding. By far not all: Unicode knows thousands.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u04cf\u0432\u043a\u043c\u043d\u0442\u0433"
    "\u03b1\u03b5\u03bf\u03c1\u03c5\u03b9\u03ba\u03bd\u03c7\u03c4\u03b3\u0131\u0269\u0585\u057d\u0578i1|0",
    "aeopcyxljshdqwlbkmhtraeopulkvxtyllounlllo",
)


class Speaker(msgspec.Struct, frozen=True):
    """Somebody under a name that they use. `person` is empty where nobody says who it is."""

    person: str
    name: str


def speaker_of(source: SessionSource) -> Speaker:
    """Who speaks, and under which name; the id stands in for a missing one."""
    return Speaker(person_of(source) or "", safe_line(source.user_name or "") or safe_line(source.sender or ""))


def with_new_speakers(known: Sequence[Speaker], speaking: Iterable[Speaker]) -> tuple[Speaker, ...]:
    """Those who were known and those who speak now, each in the place where they first used their name."""
    return tuple(dict.fromkeys((*known, *speaking)))


def earlier_names(speaker: Speaker, known: Sequence[Speaker]) -> list[str]:
    """The names that other people used before this one took theirs: who was first keeps the bare name, whoever comes later."""
    earlier = takewhile(lambda other: other != speaker, known)
    return [other.name for other in earlier if other.person != speaker.person]


def label_message(
    text: str,
    *,
    name: str | None,
    sender_id: str | None,
    others: Iterable[str] = (),
    platform: str = "",
    redact_pii: bool = False,
    secret: bytes = b"",
    shared: bool = True,
) -> str:
    """`[NAME] text` in a shared conversation, brackets at the start of a line escaped; else `text` itself.

    See `speaker_label` for the rest.
    """
    if not shared:
        return text
    label = speaker_label(
        name=name, sender_id=sender_id, others=others, platform=platform, redact_pii=redact_pii, secret=secret
    )
    return _labelled(text, label)


def label_content(
    content: Content,
    *,
    name: str | None,
    sender_id: str | None,
    others: Iterable[str] = (),
    platform: str = "",
    redact_pii: bool = False,
    secret: bytes = b"",
    shared: bool = True,
) -> Content:
    """Like `label_message`, for text, a list of content blocks, or nothing.

    In a list the first block carries the label, or a text block in front of it does; every text block is
    escaped, because they may be joined. The content that was handed in is left as it is.
    """
    if not shared:
        return content
    label = speaker_label(
        name=name, sender_id=sender_id, others=others, platform=platform, redact_pii=redact_pii, secret=secret
    )
    if not isinstance(content, list):
        return _labelled(content or "", label)
    blocks = [_with_text(block, escape_brackets(text)) if (text := _text_of(block)) else block for block in content]
    first = _text_of(blocks[0]) if blocks else None
    if first is None:
        return [{"type": "text", "text": label}, *blocks]
    return [_with_text(blocks[0], _after(label, first)), *blocks[1:]]


def speaker_label(
    *,
    name: str | None,
    sender_id: str | None,
    others: Iterable[str] = (),
    platform: str = "",
    redact_pii: bool = False,
    secret: bytes = b"",
) -> str:
    """`[NAME]`: inert, on one line, at most 40 characters of name, no bracket inside.

    `others` are the names (or ids, where they have none) of the other people here. Where one of them looks
    the same, and where the name could be taken for a label of ours, it gets a suffix that depends on the
    sender alone. A missing name is the id; with `redact_pii` names and ids are shown as in the prompt. To
    redact with an empty secret is `InvalidRequest`.
    """
    hidden = make_redaction(redact_pii=redact_pii, secret=secret, known_ids=(sender_id,))
    tag = hidden.tag(platform, sender_id) if sender_id else _NO_TAG
    own = _bare_name(hidden.name(name))
    shown = own or _bare_name(hidden.sender(platform, sender_id))
    if not shown:
        return _label(_SOMEONE, tag)
    # An id comes from the platform: only a name that someone chose can pose as something.
    taken = {_skeleton(_bare_name(hidden.name(other))) for other in others}
    if (own and _poses(own)) or _skeleton(shown) in taken:
        return _label(shown, tag)
    return _LABEL.format(name=shown)


def escape_brackets(text: str) -> str:
    """`text` with a backslash before every bracket that starts a line. No two texts come out the same."""
    return _BRACKETED_LINE.sub(r"\1\\", text)


def unescape_brackets(text: str) -> str:
    """The text that `escape_brackets` was given."""
    return _ESCAPED_LINE.sub(r"\1", text)


def _labelled(text: str, label: str) -> str:
    return _after(label, escape_brackets(text))


def _after(label: str, text: str) -> str:
    return f"{label} {text}" if text else label


def _label(shown: str, tag: str) -> str:
    suffix = _SUFFIX.format(tag=tag)
    return _LABEL.format(name=shown[: NAME_CHARS - len(suffix)].rstrip() + suffix)


def _bare_name(shown: str | None) -> str:
    """Without brackets or white space that a reader can't see, cut to length; empty where nothing is left."""
    round_ones = _CLOSING_IN_NAME.sub(")", _OPENING_IN_NAME.sub("(", shown or ""))
    return " ".join(round_ones.split())[:NAME_CHARS].rstrip()


def _poses(shown: str) -> bool:
    plain = unicodedata.normalize("NFKC", shown)
    return bool(
        _LOOKS_TAGGED.search(plain) or _LOOKS_HASHED.fullmatch(plain) or _skeleton(shown) in _RESERVED_SKELETONS
    )


def _skeleton(shown: str) -> str:
    """Equal for names that look alike: no case, accents, spaces or punctuation; look-alike letters as one."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", shown).casefold())
    plain = unicodedata.normalize("NFKD", folded).translate(_LOOKALIKES)
    kept = "".join(char for char in plain if unicodedata.category(char)[0] in "LNS")
    return (kept or plain).replace("rn", "m").replace("vv", "w")


_RESERVED_SKELETONS = frozenset(map(_skeleton, _RESERVED))


def _text_of(block: object) -> str | None:
    if isinstance(block, str):
        return block
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def _with_text(block: Any, text: str) -> Any:
    return text if isinstance(block, str) else {**block, "text": text}
