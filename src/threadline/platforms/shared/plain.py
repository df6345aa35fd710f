"""Markdown as plain text, for places that show no markup."""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]{0,12}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r"[ ]{0,3}(?:={2,}|-{2,})[ \t]*")
_BULLET = re.compile(r"([ \t]*)[*+]([ \t]+)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
# Spans are bounded, so that a line full of lone marks costs no more than its length.
_INLINE = re.compile(
    r"""
      (?<!`)(?P<ticks>`+)(?!`)(?P<code>.{1,2000}?)(?<!`)(?P=ticks)(?!`)
    | \\(?P<escaped>[!-/:-@\[-`{-~])
    | !?\[(?P<label>[^\[\]]{0,1000})\]\(<?(?P<url>[^\s()<>]{0,2000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500})?)>?
        (?:[ ]+"[^"]{0,500}")?\)
    | <(?P<address>(?:https?://|mailto:)[^\s<>]{1,2000})>
    | (?P<mark>\*{1,3}|~~)(?=[^\s*~])(?P<marked>.{1,1000}?)(?<=\S)(?P=mark)(?![*~])
    | (?<!\w)(?P<bar>_{1,3})(?=[^\s_])(?P<barred>.{1,1000}?)(?<=\S)(?P=bar)(?!\w|\.\w)
    """,
    re.VERBOSE,
)


def to_plain_text(text: str) -> str:
    """`text` as one would write it without markup: every word is kept, links show where they lead, code stays as it is."""
    shown: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or _closes(line, fence)):
            fence = "" if fence else mark.group(1)
        elif fence:
            shown.append(line)
        elif not _is_underline(line, shown):
            shown.append(_plain_line(line))
    return "\n".join(shown)


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


def _is_underline(line: str, shown: list[str]) -> bool:
    """Whether the line only draws what stands above it: a heading's underline, or a table's."""
    above = shown[-1].strip() if shown else ""
    return bool(above) and bool(_UNDERLINE.fullmatch(line) or ("|" in line and _TABLE_RULE.fullmatch(line)))


def _plain_line(line: str) -> str:
    if heading := _HEADING.fullmatch(line):
        return _plain_inline(heading.group(1))
    row = line.strip()
    if len(row) > 1 and row.startswith("|") and row.endswith("|"):
        line = row.strip("|").strip()
    return _plain_inline(_BULLET.sub(r"\1-\2", line, count=1) if _BULLET.match(line) else line)


def _plain_inline(text: str) -> str:
    return _INLINE.sub(_unmarked, text)


def _unmarked(found: re.Match[str]) -> str:
    if (verbatim := found["code"] or found["escaped"] or found["address"]) is not None:
        return verbatim.removeprefix("mailto:")
    if (label := found["label"]) is not None:
        shown, url = _plain_inline(label), found["url"]
        return shown if not url else f"{shown} ({url})" if shown and shown != url else url
    return _plain_inline(found["marked"] or found["barred"])
