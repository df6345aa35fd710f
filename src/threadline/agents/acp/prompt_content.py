"""The content of a prompt: the turn's messages and files, and a transcript of what the agent's session has not seen."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence

import msgspec

from threadline.errors import UnknownFile
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.message import Message, encode_message
from threadline.model.safe_text import quoted_label, safe_line, safe_text
from threadline.ports.agent import Turn
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

# A session's name that is longer is no name.
NAME_CHARS = 1_000

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PICTURE_BYTES = 5_000_000
_TEXT_BYTES = 200_000
_NAME_CHARS = 120
_QUOTED_CHARS = 1_000
# Of a history that an agent has not seen, its end up to so many characters, and of each message so many.
_HISTORY_CHARS = 24_000
_MESSAGE_CHARS = 4_000


class SavedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The saved state: which session of which agent belongs to ours, and how much of our history it has seen."""

    agent: str
    of: str
    session: str
    seen: int = 0
    digest: str = ""
    # What the agent's session used before anybody chose a model for it.
    own_model: str = ""

    def text(self) -> str:
        """Return the state as text, for `Remember`."""
        return msgspec.json.encode(self).decode()


def parse_state(text: str | None) -> SavedSession | None:
    """Return the state from `SavedSession.text`; None if there is none, or if it cannot be read."""
    try:
        return msgspec.json.decode(text or "", type=SavedSession)
    except msgspec.DecodeError:
        return None


class HistoryDigest(msgspec.Struct, frozen=True):
    """Digests of a history: of the part that a session has seen, and of the whole."""

    count: int
    seen: str
    whole: str


def digest_history(history: Sequence[Message], before: SavedSession | None) -> HistoryDigest:
    """Digest the history in one pass: it may be long."""
    digest, seen = hashlib.blake2b(digest_size=16), ""
    for place, message in enumerate(history):
        if before is not None and place == before.seen:
            seen = digest.hexdigest()
        digest.update(encode_message(message).body.encode("utf-8", "surrogatepass"))
        digest.update(b"\x00")
    return HistoryDigest(len(history), seen, digest.hexdigest())


def is_same_history(before: SavedSession, history: HistoryDigest) -> bool:
    """Return whether the agent's session knows this history: all that it saw is there, and something has come since.

    If nothing has come since, the last message was taken back: an undo, or another try.
    """
    return history.count > before.seen and history.seen == before.digest


def unseen_messages(before: SavedSession, history: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that the agent has not seen: all that follow the answer to its last prompt."""
    has_answer = False
    for place in range(before.seen, len(history)):
        is_users = history[place].get("role") == "user"
        if is_users and has_answer:
            return history[place:]
        has_answer = has_answer or not is_users
    return ()


async def prompt_blocks(turn: Turn, can: acp.PromptCapabilities) -> list[acp.ContentBlock]:
    """Return the turn's text, then its files: images if the agent accepts them, texts, and the names of others."""
    blocks: list[acp.ContentBlock] = [acp.TextContent(text=_clean(_user_text(turn)) or texts.NO_TEXT)]
    for spoken in turn.messages:
        for file in spoken.attachments:
            blocks += await _file_blocks(turn, file, can)
    return blocks


def preamble(system_prompt: str | None, turn: Turn) -> acp.ContentBlock | None:
    """Return the owner's and the chat's instructions and the context, for a new session."""
    parts = (system_prompt, turn.system_prompt, turn.context_prompt)
    told = "\n\n".join(part.strip() for part in parts if part and part.strip())
    return acp.TextContent(text=_clean(f"{texts.TOLD}\n{told}\n{texts.TOLD_END}")) if told else None


def transcript_text(intro: str, history: Sequence[Message]) -> acp.ContentBlock | None:
    """Return the end of the history as a record, not as instructions. Thoughts and tool results are left out."""
    said = [line for message in history if (line := _line(message))]
    kept: list[str] = []
    size = 0
    for line in reversed(said):
        size += len(line)
        if size > _HISTORY_CHARS and kept:
            break
        kept.append(line)
    if not kept:
        return None
    left_out = [texts.LEFT_OUT.format(count=len(said) - len(kept))] if len(kept) < len(said) else []
    return acp.TextContent(text=_clean("\n".join([intro, *left_out, *reversed(kept), texts.TOLD_END])))


def _user_text(turn: Turn) -> str:
    """Return the turn's text, each message after the text that it replies to: that may be a stranger's, so it is quoted."""
    if not any(spoken.quoted for spoken in turn.messages):
        return turn.text
    return "\n\n".join(
        f"{texts.IN_ANSWER_TO.format(quoted=quoted_label(spoken.quoted, _QUOTED_CHARS))}\n{spoken.text}"
        if spoken.quoted
        else spoken.text
        for spoken in turn.messages
    )


async def _file_blocks(turn: Turn, file: Attachment, can: acp.PromptCapabilities) -> list[acp.ContentBlock]:
    unseen: list[acp.ContentBlock] = [acp.TextContent(text=texts.FILE_UNSEEN.format(name=_named(file)))]
    is_picture = file.mime in PICTURES
    most = _PICTURE_BYTES if is_picture else _TEXT_BYTES
    if (is_picture and not can.image) or not (is_picture or file.mime.startswith("text/")) or (file.size or 0) > most:
        return unseen
    try:
        body = await turn.fetch(file)
        if len(body) > most:
            return unseen
        named = texts.FILE.format(name=_named(file))
        if is_picture:
            picture = acp.ImageContent(data=base64.b64encode(body).decode(), mime_type=file.mime)
            return [acp.TextContent(text=named), picture]
        return [acp.TextContent(text=f"{named}\n{body.decode()}\n{texts.FILE_END}")]
    except (UnknownFile, UnicodeDecodeError):
        return unseen


def _named(file: Attachment) -> str:
    return json.dumps(safe_line(file.name, _NAME_CHARS), ensure_ascii=False)


def _line(message: Message) -> str:
    role = message.get("role")
    text = "\n".join(
        (*_texts(message.get("content")), *(f"[file: {_named(file)}]" for file in attachments_of(message)))
    )
    if role not in ("user", "assistant") or not text.strip():
        return ""
    shown = safe_text(text[:_MESSAGE_CHARS])
    if len(text) > _MESSAGE_CHARS:
        shown += texts.CUT.format(count=len(text) - _MESSAGE_CHARS)
    return json.dumps({"role": role, "text": shown}, ensure_ascii=False)


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            yield text


def _clean(text: str) -> str:
    """Return the text without unpaired surrogates, which no line can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
