"""What the agent's session and ours have in common, and how that is kept from turn to turn. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from threadline.model.message import Message, encode_message

# A session's name that is longer is no name.
NAME_CHARS = 1_000


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which session of which agent goes with ours, and what of ours came before the last thing that it was told."""

    agent: str
    of: str
    session: str
    seen: int = 0
    digest: str = ""
    # What the agent's session used before anybody chose a model for it.
    own_model: str = ""

    def text(self) -> str:
        """For `Remember`."""
        return msgspec.json.encode(self).decode()


def remembered(text: str | None) -> Remembered | None:
    """What `Remembered.text` gave; `None` where there is nothing, or nothing that can be read."""
    try:
        return msgspec.json.decode(text or "", type=Remembered)
    except msgspec.DecodeError:
        return None


class Read(msgspec.Struct, frozen=True):
    """A history as it stands: what tells whether it is still the same, as far as a session has seen it, and as a whole."""

    count: int
    seen: str
    whole: str


def read(history: Sequence[Message], before: Remembered | None) -> Read:
    """The history in one pass: it may be long."""
    digest, seen = hashlib.blake2b(digest_size=16), ""
    for place, message in enumerate(history):
        if before is not None and place == before.seen:
            seen = digest.hexdigest()
        digest.update(encode_message(message).body.encode("utf-8", "surrogatepass"))
        digest.update(b"\x00")
    return Read(len(history), seen, digest.hexdigest())


def is_continued(before: Remembered, history: Read) -> bool:
    """Whether the agent's session knows this history: all that it had before is there, and something has come since.

    Where nothing has, what it was told last was taken back: an undo, or another try.
    """
    return history.count > before.seen and history.seen == before.digest


def missed(before: Remembered, history: Sequence[Message]) -> Sequence[Message]:
    """What was said here without the agent: all that follows the answer to what it was told last."""
    has_answer = False
    for place in range(before.seen, len(history)):
        is_users = history[place].get("role") == "user"
        if is_users and has_answer:
            return history[place:]
        has_answer = has_answer or not is_users
    return ()
