"""An agent's question whether it may do something: in our words for people, by kind for the agent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from threadline.agents.acp.translate import INPUT_CHARS, Call, text_of
from threadline.agents.acp.wanted import Permissions
from threadline.model.access import TOOLS
from threadline.ports.agent import AskPermission, ToolCall
from threadline.rpc import acp
from threadline.texts import acp_agents as acp_agents_texts

# A question has to be read in a chat: the longest texts in it are cut until all of it is no longer than this.
_ASK_CHARS = 12_000
_CUTS = (8_000, 2_000, 400, 80)
# A call that is longer is shown as the text that it begins with: to look through all of it would hold up everybody.
_READ_CHARS = 400_000
_ITEMS = 50
# What a kind of call comes to here; of those that are not named it is not known how far they reach.
_USES: dict[acp.ToolKind, str] = dict.fromkeys(("read", "edit", "delete", "move", "search"), "host_files")
_ANYTHING = "shell"
_YES: tuple[acp.PermissionKind, ...] = ("allow_once", "allow_always")
_NO: tuple[acp.PermissionKind, ...] = ("reject_once",)


def chosen(options: Sequence[acp.PermissionOption], *, granted: bool) -> acp.RequestPermissionResponse:
    """The answer that an agent is given, by the kinds of its options alone: their names may say anything.

    Where it offers nothing of that kind, the call is cancelled.
    """
    for kind in _YES if granted else _NO:
        for option in options:
            if option.kind == kind:
                return acp.RequestPermissionResponse(outcome=acp.Selected(option_id=option.option_id))
    return CANCELLED


CANCELLED = acp.RequestPermissionResponse(outcome=acp.Cancelled())


def use_of(kind: acp.ToolKind, options: Sequence[acp.PermissionOption]) -> str:
    """What a yes to a call of that kind lets the agent do, as the table of least roles names it."""
    # Of a yes for good nobody knows what comes under it later.
    return _ANYTHING if is_for_good(options) else _USES.get(kind, _ANYTHING)


def is_for_good(options: Sequence[acp.PermissionOption]) -> bool:
    """Whether a yes would hold for more than this call: the agent offers nothing less."""
    kinds = {option.kind for option in options}
    return "allow_always" in kinds and "allow_once" not in kinds


def takes_yes(options: Sequence[acp.PermissionOption]) -> bool:
    """Whether the agent can be given a yes at all."""
    return any(option.kind in _YES for option in options)


def answer_by_rule(
    permissions: Permissions, options: Sequence[acp.PermissionOption], *, is_enough: bool
) -> acp.RequestPermissionResponse | None:
    """What the owner has settled once and for all; `None`: somebody is to be asked.

    `is_enough`: whether the turn's own people may do this. What they may not, no rule allows them.
    """
    if permissions == "ask" or (permissions == "allow" and not is_enough):
        return None
    return chosen(options, granted=permissions == "allow")


def question_of(ask_id: str, call: Call, options: Sequence[acp.PermissionOption]) -> AskPermission:
    """The question as it is put to people. What the agent calls its options is not in it."""
    arguments, is_cut = _arguments(call)
    diffs, is_less = call.changes()
    return AskPermission(
        ask_id=ask_id,
        tool=acp_agents_texts.TOOLS[call.kind],
        arguments=arguments,
        reason=" ".join(_reasons(is_for_good=is_for_good(options), is_cut=is_cut or is_less)),
        least=TOOLS[use_of(call.kind, options)],
        call=_told(call, arguments),
        diffs=diffs,
        is_for_good=is_for_good(options),
    )


def _reasons(*, is_for_good: bool, is_cut: bool) -> Iterator[str]:
    yield acp_agents_texts.ASK_REASON
    if is_for_good:
        yield acp_agents_texts.ASK_FOR_GOOD
    if is_cut:
        yield acp_agents_texts.ASK_CUT


def _told(call: Call, arguments: str) -> ToolCall:
    """The call as it was told; where that is not all that the agent says of it, with what people are shown."""
    told = call.event()
    is_all = len(call.input) <= INPUT_CHARS and told.title == call.title.strip() and not _texts(call)
    return told if is_all else msgspec.structs.replace(told, arguments=arguments)


def _texts(call: Call) -> list[str]:
    return [said for one in call.content if isinstance(one, acp.ContentPart) and (said := text_of(one.content))]


def _arguments(call: Call) -> tuple[str, bool]:
    """All that is known of the call, as JSON; whether something of it is left out."""
    told = _known(call)
    is_whole = all(len(value) <= _ITEMS for value in told.values() if isinstance(value, list))
    told = {name: value[:_ITEMS] if isinstance(value, list) else value for name, value in told.items()}
    shorter = ""
    is_short = call.weight <= _READ_CHARS
    text = _written(told) if is_short else ""
    if is_short and len(text) <= _ASK_CHARS:
        return text, not is_whole
    for most in _CUTS:
        shorter = _written(_cut(told, most))
        if len(shorter) <= _ASK_CHARS:
            return shorter, True
    # Thousands of short values: nobody reads them either.
    text = text or call.input or shorter
    title = _cut(call.title, _CUTS[-1])
    return _written({"title": title, "input": text[: _ASK_CHARS // 2] + _more(text)}), True


def _known(call: Call) -> dict[str, object]:
    """What the agent says of the call, in whichever way: some write what they are about to do into the title alone."""
    given = _decoded(call.input) if call.input else None
    told: dict[str, object] = {
        "title": call.title.strip(),
        "input": given,
        "text": _texts(call),
        "files": [one.path for one in call.locations],
        "changes": [
            {"path": one.path, "old": one.old_text, "new": one.new_text}
            for one in call.content
            if isinstance(one, acp.Diff) and not _has_all(given, (one.path, one.old_text, one.new_text))
        ],
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def _has_all(given: object, texts: Sequence[str | None]) -> bool:
    """Whether the input says the same, so that it need not be shown twice."""
    values = list(given.values()) if isinstance(given, dict) else []
    return all(text in values for text in texts if text is not None)


def _decoded(text: str) -> object:
    if len(text) > _READ_CHARS:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _cut(value: object, most: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= most else value[:most] + acp_agents_texts.CUT.format(count=len(value) - most)
    if isinstance(value, dict):
        return {name: _cut(inner, most) for name, inner in value.items()}
    return [_cut(inner, most) for inner in value] if isinstance(value, list) else value


def _more(text: str) -> str:
    return acp_agents_texts.CUT.format(count=len(text) - _ASK_CHARS // 2)


def _written(value: object) -> str:
    """JSON on several lines. Everything that a chat could take for more than text is an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (RecursionError, ValueError):
        return "{}"
