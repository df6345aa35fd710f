"""The sentences of the gateway in chats: notices of turns, questions, owner alerts, pairing."""

from __future__ import annotations

from typing import Final

MAY_BE_REPEATED: Final = "{text}\n\n(You may have this message twice: the connection broke while I was sending it.)"
WELCOME: Final = (
    "Hello! I'm your agent, and I remember this conversation, also after a restart. "
    "Write to me as to anyone; /help shows what else you can do."
)
QUEUE_FULL: Final = (
    "I still have {count} messages of this conversation to answer, so I did not take this one. "
    "Send it again later; /queue shows what waits."
)
BOTS_ALONE: Final = (
    "I have answered {count} messages of bots here, and nobody else has said a word. "
    "I answer bots again once one of you people has written something."
)
TOO_MUCH: Final = (
    "That was too much for one message, so I did not take it: I read up to 1,000,000 characters and 100 files at a time. "
    "Send it in parts."
)
AGENT_FAILED: Final = "I could not answer that: {reason}"
AGENT_FAULT: Final = (
    "I could not answer that: the agent failed ({error}). The log of the gateway says more; /retry tries again."
)
AGENT_SILENT: Final = "I gave up on that after {minutes} minutes without a sign of life; /retry tries again."
STILL_AT_IT: Final = "I am still working on that. /stop stops me."
FILES_NOT_HERE: Final = "(I can't send files here: {names}.)"
FILES_NOT_SENT: Final = "(I could not send a file that belongs here: it is gone, or this chat takes no files.)"
FILES_NOT_HAD: Final = "(I can't get at these files: {names}.)"
NOTHING_SAID: Final = "(The agent had nothing to say.)"
STOPPED: Final = "(stopped)"
INTERRUPTED: Final = "(interrupted by the next message)"
BROKEN_OFF: Final = (
    "My answer to your last message broke off because the gateway was stopped in the middle of it. "
    "What I had said and done is kept; /retry lets me try again."
)
PARKED: Final = (
    "The gateway broke down each time that I tried to answer your last message, so I put it aside. /retry tries again."
)
ASK: Final = (
    "May I use {tool}?\n\n{call}\n\n{reason}`/approve {code}` allows {what}; `/deny {code}` does not. I wait for a day."
)
ASK_ONCE: Final = "exactly this, once"
ASK_FOR_GOOD: Final = "this and all calls of that sort"
ASK_YES: Final = "Allow"
ASK_NO: Final = "Don't allow"
ASK_EXPIRED: Final = "(Nobody allowed it within a day, so I did not do it. /retry lets me try again.)"
ASK_FIRST: Final = (
    "I answer this once my question is answered: `/approve {code}` or `/deny {code}`. /stop gives the question up."
)
# By the reason why a turn was stopped.
STOPS: Final[dict[str, str]] = {"stop": STOPPED, "interrupt": INTERRUPTED, "expired": ASK_EXPIRED}
TOOL_CANCELLED: Final = "cancelled"
TOOL_UNKNOWN: Final = "It is not known what came of this: the gateway was stopped before it ended."
# For the agent, at the end of the context block.
AFRESH_IDLE: Final = (
    "This conversation started afresh after a long silence. There was an earlier one, which is not shown to you."
)
AFRESH_DAILY: Final = (
    "This conversation started afresh because a new day began. There was an earlier one, which is not shown to you."
)
RESET_IDLE: Final = "(I started a new conversation, because nothing was said here for long. /resume takes that back.)"
RESET_DAILY: Final = "(I started a new conversation for the new day. /resume takes that back.)"

# Alerts, sent once to the owner.
ALERT_AGENT: Final = "The agent {name} can't answer, and only you can mend it: {reason}"
ALERT_PLATFORM: Final = "{name} does not let me in, so nothing comes from there and nothing goes there: {reason}"
ALERT_CONTESTED: Final = (
    "Somebody else listens on {name} with my key, so I may not hear what is said to me there: {reason}. "
    "Stop the other program that uses this key, or give me a key of my own."
)
ALERT_FOREIGN: Final = (
    "{name} gave me something as coming from {other}, for which it does not speak. I took nothing of it; "
    "`threadline messages list` shows what it was. If you don't know why it does that, remove what brings {name}."
)
ALERT_CHAT: Final = (
    "I can't reach the chat {chat} on {name} any more: {reason}. What was meant for it is put aside; "
    "`threadline outbox list --state parked` shows it."
)
ALERT_LAST_CHAT: Final = (
    "{text} So many chats are gone by now that I tell of no others, until some of them are back or forgotten; "
    "the list shows what was meant for them."
)
ALERT_PARKED: Final = (
    "The gateway broke down each time that it worked on a message from {name}, so I put that message aside and told its sender. "
    "`threadline messages list --fate parked` shows it; /retry in its chat tries again."
)
# The form of each alert in a chat.
ALERT_ONCE: Final = (
    "{text}\n\nI say this once, and again only if it fails after it has worked. "
    "`threadline doctor` on the gateway's machine says more."
)

# Pairing: for strangers, and for people who just got a role.
PAIRING_CODE: Final = (
    "Hello! I don't know you yet, so I did not keep what you wrote. If we should talk, ask my owner to run this on my "
    "machine within an hour:\n\n`threadline pair approve {code}`"
)
PAIRED: Final[dict[str, str]] = {
    "guest": "You are welcome here now. Write to me as to anyone; /help shows what else you can do.",
    "trusted": "You are welcome here now, and trusted. /help shows what you can do.",
    "owner": "You are my owner now. /help shows what you can do.",
}
