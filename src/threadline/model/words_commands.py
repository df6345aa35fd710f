"""The catalogue of the commands: what they are for, and what they answer."""

from __future__ import annotations

from typing import Final

HELP: Final[dict[str, str]] = {
    "help": "shows this list.",
    "start": "says hello.",
    "stop": "stops the answer that I am giving; what I said so far is kept.",
    "queue": "shows what waits for an answer here; `/queue drop N` drops the message at place N.",
    "status": "tells which conversation this is, how long it is, and whether I am at work in it.",
    "whoami": "tells who you are to me, and what you may do.",
    "usage": "tells what this conversation has cost.",
    "sessions": "lists your conversations; in a group, those of the group.",
    "search": "finds what was said in your conversations; in a group, in those of the group.",
    "title": "names this conversation; without a name, takes its name away.",
    "fork": "goes on in a copy of this conversation; the old one stays as it is.",
    "undo": "takes the last exchange back, or the last N.",
    "redo": "takes the last undo back.",
    "retry": "lets me answer your last message again.",
    "new": "starts a fresh conversation; the old one is kept.",
    "reset": "does the same as /new.",
    "resume": "goes back to an earlier conversation; without a name, to the one before this.",
}

# How a command is to be used, told to those who used it otherwise.
USE: Final[dict[str, str]] = {
    "queue": "Use /queue to see what waits, and /queue drop N to drop the message at place N.",
    "search": "Say what to look for: /search WORDS. Quotes find a phrase, -word leaves out, pre* finds beginnings.",
    "undo": "Use /undo, or /undo N for the last N exchanges: /undo 3.",
}
USE_ALONE: Final = "{usage} stands alone, with nothing behind it. I did nothing."

# Whom a role lets in, as the end of a sentence.
ROLE_MEANS: Final[dict[str, str]] = {
    "group": "everybody here",
    "guest": "people whom my owner has let in",
    "trusted": "people whom my owner trusts",
    "owner": "my owner",
}

HELP_HEAD: Final = "You can talk to me, or use these:"
START: Final = "Hello! Write to me as to anyone; /help shows what else you can do."
UNKNOWN: Final = "I don't know the command /{name}; /help shows those that I know."
UNKNOWN_NEAR: Final = "I don't know the command /{name}. Did you mean /{near}? /help shows those that I know."
NOT_ALLOWED: Final = "{usage} is for {whom}; /whoami tells what you are to me."
NOT_STARTED_BY_YOU: Final = (
    "Several people share this conversation: {usage} is for who started it, and for my owner. I did nothing."
)
FAILED: Final = "That did not work: {reason}"
GONE: Final = "That did not work: this conversation was deleted meanwhile. Your next message starts a new one."

STOPPING: Final = "I stop."
NOTHING_RUNS: Final = "I am not answering anything just now."
NOT_YOUR_ANSWER: Final = "Somebody else asked for that answer, so I go on with it."

QUEUE: Final = "{count} waiting:"
QUEUE_EMPTY: Final = "Nothing waits here."
DROPPED: Final = "I dropped message {place}: {text}"
NO_SUCH_PLACE: Final = "Nothing waits at place {place}; /queue shows what does."
ALREADY_TAKEN: Final = "It is too late for that: I am answering message {place} already. /stop stops me."
NOT_YOUR_MESSAGE: Final = "Message {place} is somebody else's; only they and my owner can drop it."

STATUS: Final = (
    "Conversation: {title} (`{session}`)\nMessages: {messages}\nModel: {model}\nWaiting: {waiting}\nJust now: {doing}"
)
DOING: Final = "I am answering."
DOING_NOTHING: Final = "nothing runs."
UNTITLED: Final = "without a name"
OWN_MODEL: Final = "the agent's own"
WHOAMI: Final = "You are {person}, and I know you as {role}: I do what is for {whom}."
NOBODY: Final = "someone whom the platform does not name"
USAGE: Final = "{total:,} tokens in this conversation: {input:,} read, {output:,} written{cached}. {cost}"
USAGE_CACHED: Final = ", {cached:,} from or to a cache"
COST: Final = "That was about ${cost:.4f}."
COST_ACTUAL: Final = "That cost ${cost:.4f}."
COST_INCLUDED: Final = "That is included in a subscription."
COST_UNKNOWN: Final = "What that cost is not known."

SESSIONS: Final = "Your conversations, newest first:"
SESSIONS_HERE: Final = "Conversations in this chat, newest first:"
SESSION_ROW: Final = "`{session}` {title}, {messages} messages{here}"
SESSION_CURRENT: Final = " (this one)"
NO_SESSIONS: Final = "There are no conversations yet."
FOUND: Final = "`{session}` {title}: {snippet}"
NOTHING_FOUND: Final = "I found nothing."

TITLED: Final = "This conversation is now called: {title}"
TITLE_GONE: Final = "This conversation has no name any more."
FORKED: Final = "We go on in a copy; `/resume {old}` takes you back."
UNDONE: Final = "I took the last exchange back; /redo brings it again."
UNDONE_SOME: Final = "I took the last {count} exchanges back, or as many as there were; /redo brings them again."
NOTHING_TO_UNDO: Final = "There is nothing to undo."
REDONE: Final = "It is back."
NOTHING_TO_REDO: Final = "There is nothing to redo: nothing was undone, or something was said since."
NOTHING_TO_RETRY: Final = "There is nothing to answer again."
FRESH: Final = "A fresh start. /resume brings the last conversation back."
NOTHING_TO_RESUME: Final = "There is no earlier conversation here; /sessions lists yours."
NO_SUCH_SESSION: Final = "You have no conversation called {name} here; /sessions lists those there are."
RESUMED: Final = "We are back in: {title}"

REFERENCE: Final = """\
Write them in any chat, as a new message of your own: in what you forward, edit or quote they are just words. Where a bot
must be named, `/help@its_name` does the same as `/help`.

*At once* means beside the queue, also while an answer is being given. *In turn* means after what was said before it; `/new`,
`/reset` and `/resume` first stop the answer that is being given.

*For* names the least role: `group` is anyone in a group that is answered, `guest` was let in, `trusted` and `owner` can do
more. In a group, commands cover that chat alone. In a conversation that several people share, those that take their turn
are for who started it, and for the owner."""
