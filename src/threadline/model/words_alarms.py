"""The catalogue of alarms: what the owner is told, once."""

from __future__ import annotations

from typing import Final

AGENT: Final = "The agent {name} can't answer, and only you can mend it: {reason}"
PLATFORM: Final = "{name} does not let me in, so nothing comes from there and nothing goes there: {reason}"
CONTESTED: Final = (
    "Somebody else listens on {name} with my key, so I may not hear what is said to me there: {reason}. "
    "Stop the other program that uses this key, or give me a key of my own."
)
FOREIGN: Final = (
    "{name} gave me something as coming from {other}, for which it does not speak. I took nothing of it; "
    "`threadline messages list` shows what it was. If you don't know why it does that, remove what brings {name}."
)
CHAT: Final = (
    "I can't reach the chat {chat} on {name} any more: {reason}. What was meant for it is put aside; "
    "`threadline outbox list --state parked` shows it."
)
LAST_CHAT: Final = (
    "{text} So many chats are gone by now that I tell of no others, until some of them are back or forgotten; "
    "the list shows what was meant for them."
)
PARKED: Final = (
    "The gateway broke down each time that it worked on a message from {name}, so I put that message aside and told its sender. "
    "`threadline messages list --fate parked` shows it; /retry in its chat tries again."
)
# Behind each of them, in a chat.
ONCE: Final = (
    "{text}\n\nI say this once, and again only if it fails after it has worked. "
    "`threadline doctor` on the gateway's machine says more."
)
