"""Markdown as plain text, for platforms that show no markup."""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]{0,12}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r"[ ]{0,3}(?:={2,}|-{2,})[ \t]*")
_BULLET = re.compile(r"([ \t]*)[*+]([ \t]+)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
# The length of spans is bounded: a line full of unmatched marks must not cost more than linear time.
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
    """Return `text` without markup. Every word is kept, links show their addresses, and code is unchanged."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or _closes(line, fence)):
            fence = "" if fence else mark.group(1)
        elif fence:
            lines.append(line)
        elif not _is_underline(line, lines):
            lines.append(_plain_line(line))
    return "\n".join(lines)


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


def _is_underline(line: str, lines: list[str]) -> bool:
    """Return whether the line only underlines the one above it, which is a heading or the head of a table."""
    above = lines[-1].strip() if lines else ""
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


def _unmarked(match: re.Match[str]) -> str:
    if (verbatim := match["code"] or match["escaped"] or match["address"]) is not None:
        return verbatim.removeprefix("mailto:")
    if (label := match["label"]) is not None:
        text, url = _plain_inline(label), match["url"]
        return text if not url else f"{text} ({url})" if text and text != url else url
    return _plain_inline(match["marked"] or match["barred"])
