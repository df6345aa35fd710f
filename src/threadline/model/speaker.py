"""Labels the messages of a shared conversation with their authors: `[NAME] text`.

The label is at the very start of a message. So that nobody can pose as another person, a bracket that a sender
typed at the start of any line gets a backslash in front, also after white space and invisible characters.
`unescape_brackets` removes it again. Messages of a conversation with one person are never labelled or changed.
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

# What may precede the first visible character of a line. No line breaks: each line is read once.
_BLANK = f"(?:[{INVISIBLE}\u0300-\u036f]|(?![{LINE_BREAKS}])\\s)"
_LINE_START = f"(?:\\A|(?<=[{LINE_BREAKS}]))({_BLANK}*+)"
_BRACKETED_LINE = re.compile(f"{_LINE_START}(?=\\\\*+[{_OPENING}])")
_ESCAPED_LINE = re.compile(f"{_LINE_START}\\\\(?=\\\\*+[{_OPENING}])")

# Names that look like a label that only we assign.
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
    """A person under one of their names. `person` is empty if it is unknown."""

    person: str
    name: str


def speaker_of(source: SessionSource) -> Speaker:
    """Return the sender of a message with their name, or their id if they have no name."""
    return Speaker(person_of(source) or "", safe_line(source.user_name or "") or safe_line(source.sender or ""))


def with_new_speakers(known: Sequence[Speaker], speaking: Iterable[Speaker]) -> tuple[Speaker, ...]:
    """Return the known speakers and the new ones, each once, in the order in which they first appeared."""
    return tuple(dict.fromkeys((*known, *speaking)))


def earlier_names(speaker: Speaker, known: Sequence[Speaker]) -> list[str]:
    """Return the names that other people used before this speaker: the first person with a name keeps it without a suffix."""
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
    """Return `[NAME] text` with brackets at line starts escaped, in a shared conversation; else `text` itself.

    See `speaker_label` for the arguments.
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
    """Label a content as `label_message` labels text: text, a list of content blocks, or None.

    In a list, the label is added to the first block, or a text block is put before it. Every text block is escaped,
    because they may be joined. The given content is not changed.
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
    """Return `[NAME]`: safe text on one line, at most 40 characters of name, without brackets inside.

    `others` are the names of the other people here, or the ids of those without a name. If one of them looks the
    same, or if the name looks like a label of ours, the name gets a suffix that depends on the sender alone. The id
    replaces a missing name. With `redact_pii` names and ids are shown as in the prompt; an empty secret then raises
    `InvalidRequest`.
    """
    hidden = make_redaction(redact_pii=redact_pii, secret=secret, known_ids=(sender_id,))
    tag = hidden.tag(platform, sender_id) if sender_id else _NO_TAG
    own = _bare_name(hidden.name(name))
    shown = own or _bare_name(hidden.sender(platform, sender_id))
    if not shown:
        return _label(_SOMEONE, tag)
    # Ids come from the platform: only a chosen name can imitate a label.
    taken = {_skeleton(_bare_name(hidden.name(other))) for other in others}
    if (own and _poses(own)) or _skeleton(shown) in taken:
        return _label(shown, tag)
    return _LABEL.format(name=shown)


def escape_brackets(text: str) -> str:
    """Return `text` with a backslash before every bracket that starts a line. Different texts stay different."""
    return _BRACKETED_LINE.sub(r"\1\\", text)


def unescape_brackets(text: str) -> str:
    """Return the text that `escape_brackets` was given."""
    return _ESCAPED_LINE.sub(r"\1", text)


def _labelled(text: str, label: str) -> str:
    return _after(label, escape_brackets(text))


def _after(label: str, text: str) -> str:
    return f"{label} {text}" if text else label


def _label(shown: str, tag: str) -> str:
    suffix = _SUFFIX.format(tag=tag)
    return _LABEL.format(name=shown[: NAME_CHARS - len(suffix)].rstrip() + suffix)


def _bare_name(shown: str | None) -> str:
    """Return a name with round brackets and single spaces, cut to length; empty if nothing is left."""
    round_ones = _CLOSING_IN_NAME.sub(")", _OPENING_IN_NAME.sub("(", shown or ""))
    return " ".join(round_ones.split())[:NAME_CHARS].rstrip()


def _poses(shown: str) -> bool:
    plain = unicodedata.normalize("NFKC", shown)
    return bool(
        _LOOKS_TAGGED.search(plain) or _LOOKS_HASHED.fullmatch(plain) or _skeleton(shown) in _RESERVED_SKELETONS
    )


def _skeleton(shown: str) -> str:
    """Return a form that is equal for names that look alike: case, accents, spaces and punctuation do not count."""
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
