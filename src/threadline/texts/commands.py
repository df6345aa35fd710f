"""The sentences of the commands: their help and their answers."""

from __future__ import annotations

from typing import Final

HELP: Final[dict[str, str]] = {
    "help": "shows this list.",
    "start": "says hello.",
    "stop": "stops the answer that I am giving; what I said so far is kept.",
    "approve": "allows what I asked to do, once.",
    "deny": "does not allow what I asked to do.",
    "queue": "shows what waits for an answer here; `/queue drop N` drops the message at place N.",
    "status": "tells which conversation this is, how long it is, and whether I am at work in it.",
    "whoami": "tells who you are to me, and what you may do.",
    "usage": "tells what this conversation has cost.",
    "sessions": "lists your conversations, for an owner also those elsewhere; in a group, those of the group.",
    "search": "finds what was said in your conversations; in a group, in those of the group.",
    "timezone": "tells in which time zone your days are counted, or sets it; `/timezone default` goes back.",
    "sethome": "makes this chat the one for messages that answer nobody; `/sethome off` takes it back.",
    "title": "names this conversation; without a name, takes its name away.",
    "model": "tells which model answers here, or chooses one; `/model default` takes the agent's own.",
    "fork": "goes on in a copy of this conversation; the old one stays as it is.",
    "undo": "takes the last exchange back, or the last N.",
    "redo": "takes the last undo back.",
    "retry": "lets me answer your last message again.",
    "handoff": "goes on with this conversation in a platform's home channel, or in `PLATFORM:CHAT`.",
    "new": "starts a fresh conversation; the old one is kept.",
    "reset": "does the same as /new.",
    "resume": "goes back to an earlier conversation; without a name, to the one before this.",
}

# Usage, shown after a wrong argument.
USE: Final[dict[str, str]] = {
    "approve": "Use /approve, or /approve CODE with the four letters that stand under my question.",
    "deny": "Use /deny, or /deny CODE with the four letters that stand under my question.",
    "queue": "Use /queue to see what waits, and /queue drop N to drop the message at place N.",
    "search": "Say what to look for: /search WORDS. Quotes find a phrase, -word leaves out, pre* finds beginnings.",
    "model": "Use /model to see which model answers, /model NAME for another one, and /model default for the agent's own.",
    "sethome": "Use /sethome in the chat that is to be the home channel, and /sethome off to take it back.",
    "handoff": "Say where to go on: /handoff PLATFORM for its home channel, or /handoff PLATFORM:CHAT or PLATFORM:CHAT:THREAD.",
    "undo": "Use /undo, or /undo N for the last N exchanges: /undo 3.",
}
USE_ALONE: Final = "{usage} stands alone, with nothing behind it. I did nothing."

# The people of each role, as the end of a sentence.
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
    "Several people share this conversation: {usage} is for who started it, for those who run this chat, and for my owner. "
    "I did nothing."
)
FAILED: Final = "That did not work: {reason}"
GONE: Final = "That did not work: this conversation was deleted meanwhile. Your next message starts a new one."

STOPPING: Final = "I stop."
NOTHING_RUNS: Final = "I am not answering anything just now."
NOT_YOUR_ANSWER: Final = "Somebody else asked for that answer, so I go on with it."

APPROVED: Final = "Allowed, once: {tool}"
APPROVED_FOR_GOOD: Final = "Allowed, from now on: {tool}"
DENIED: Final = "Not allowed: {tool}"
NOTHING_ASKED: Final = "I have not asked for anything that is still open here."
ANOTHER_QUESTION: Final = (
    "That question is not open any more; the one that I wait for now has the code {code}: "
    "`/approve {code}` or `/deny {code}`."
)
NOT_SHOWN_YET: Final = "My question has just gone out: read it first, then say `/approve {code}` or `/deny {code}`."
NOT_YOURS_TO_ALLOW: Final = "{tool} is for {whom} to allow or deny; /whoami tells what you are to me."

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
DOING_ASKS: Final = "I wait for somebody to allow or deny what I asked."
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
SESSIONS_ELSEWHERE: Final = "Elsewhere, newest first; /resume goes on here with a copy:"
SESSION_ELSEWHERE: Final = "`{session}` {title}, {messages} messages, on {platform}"
FOUND: Final = "`{session}` {title}: {snippet}"
FOUND_ELSEWHERE: Final = "Elsewhere; /resume goes on here with a copy:"
NOTHING_FOUND: Final = "I found nothing."

ZONE_IS: Final = "Your days are counted in {zone}, where it is {time} now."
ZONE_NOT_NAMED: Final = (
    "You have named no time zone, so {zone} counts, where it is {time} now. /timezone ZONE names yours."
)
ZONE_GONE: Final = "From now on {zone} counts for you as for all, where it is {time} now."
NO_ZONE: Final = "I know no time zone {name}. Name one as a continent and a city: /timezone Europe/Berlin."
NO_ZONE_NEAR: Final = "I know no time zone {name}. Did you mean /timezone {near}?"
ZONE_OF_NOBODY: Final = "The platform does not tell me who you are, so I can keep no time zone for you."

HOME_SET: Final = "This is now the home channel of {platform}: {name}. Conversations that begin from now on know of it."
HOME_GONE: Final = "{platform} has no home channel any more."
HOME_CONFIGURED: Final = "The home channel of {platform} is again the one of the configuration: {name}."
NO_HOME_SET: Final = "Nobody has made a chat the home channel of {platform} with /sethome, so I did nothing."

MODEL_IS: Final = "{model} was chosen to answer in this conversation."
MODEL_IS_OWN: Final = "The agent's own model answers here."
MODEL_LAST: Final = "The last answer came from {model}."
MODEL_CHOSEN: Final = "From now on {model} answers in this conversation."
MODEL_OWN_AGAIN: Final = "From now on the agent's own model answers in this conversation."
MODEL_FIXED: Final = "The agent that answers here can't change its model. I did nothing."

HANDED_OVER: Final = "We go on in {place}: write to me there. What you write here stays here."
HANDED_HERE: Final = "We go on here with {title} from {place}. /resume brings back what was here before."
HANDED_UNNAMED: Final = "a conversation"
HANDOFF_PLACE: Final = "{name} ({platform})"
HANDOFF_HERE: Final = "We are in that chat already."
HANDOFF_BUSY: Final = "I am at work in {place}. Try again when I am done there."
HANDOFF_PRIVATE: Final = "This conversation is yours alone, so it can't go on in a group. Name a direct chat."
HANDOFF_SHARED: Final = "Several people share this conversation, so it can't go on in that chat."
NO_HOME: Final = "{platform} has no home channel; /sethome makes one, or name the chat: /handoff {platform}:CHAT."
NOT_CONNECTED: Final = "I am not connected to {platform} just now."
NO_SUCH_CHAT: Final = "I know no chat {name} in which you could go on. Write to me there once, and try again."

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
RESUMED_COPY: Final = "We go on with a copy of: {title} (on {platform}). There it stays as it is."

REFERENCE: Final = """\
Write them in any chat, as a new message of your own: in what you forward, edit or quote they are just words. Where a bot
must be named, `/help@its_name` does the same as `/help`.

*At once* means beside the queue, also while an answer is being given. *In turn* means after what was said before it; `/new`,
`/reset` and `/resume` first stop the answer that is being given.

*For* names the least role: `group` is anyone in a group that is answered, `guest` was let in, `trusted` and `owner` can do
more. In a group, commands cover that chat alone. In a conversation that several people share, those that take their turn
are for who started it, the chat's admins and the owner."""
