"""Long texts that a client has cut at its platform's limit: who sends the last part has said all, and need not be waited for."""

from __future__ import annotations

from datetime import datetime, timedelta

from threadline.model.delivery import target_of
from threadline.model.inbound import Inbound
from threadline.ports.platform import Capabilities, length

# Clients cut between two words where they can, so that a part has nearly the length that it may have.
_NEARLY = 0.95
# Whoever says something after that begins anew.
_FOLLOWS_WITHIN = timedelta(seconds=6)


class SplitTexts:
    """Knows the last part of a text from other messages.

    It remembers nothing across a restart: then a turn waits for more, as after any other message.
    """

    def __init__(self) -> None:
        # When somebody last sent a part that fills a message, by chat and sender.
        self._open: dict[tuple[str, str | None], datetime] = {}

    def is_last_part(self, event: Inbound, can: Capabilities, now: datetime) -> bool:
        """Whether a message ends a text: it is shorter than its platform allows and follows one that was not."""
        sender = target_of(event.source).ordering_key, event.source.sender
        before = self._open.pop(sender, None)
        if length(event.text, can.length_unit) >= can.max_length * _NEARLY:
            self._open = {one: at for one, at in self._open.items() if now - at <= _FOLLOWS_WITHIN} | {sender: now}
            return False
        # Of an album more is to come.
        return before is not None and now - before <= _FOLLOWS_WITHIN and event.album_id is None
