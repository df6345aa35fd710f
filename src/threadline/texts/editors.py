"""The sentences for editors: errors, and the options of a session."""

from __future__ import annotations

from typing import Final

TITLE: Final = "Threadline"
AT_A_TERMINAL: Final = (
    "An editor starts this command by itself, and speaks with it here. `threadline chat` is for people; Ctrl-C ends."
)

FIRST_INITIALIZE: Final = "Send `initialize` first; nothing else is answered before it."
NO_METHOD: Final = "There is no method {method}."
NO_SIGNING_IN: Final = "There is nothing to sign in to here: this agent has no authentication methods."
NO_SESSION: Final = "There is no session {session_id}. `session/list` tells which there are, `session/new` begins one."
CWD_NOT_ABSOLUTE: Final = "`cwd` must be an absolute path."
DIRECTORY_NOT_ABSOLUTE: Final = "Each of `additionalDirectories` must be an absolute path."
NUL_IN_PATH: Final = "A path holds a NUL character, which no path has."
BUSY: Final = "This session is still answering. Wait for the answer, or send `session/cancel` first."
BUSY_ELSEWHERE: Final = (
    "This session is being answered in another window. Wait until that is done, or stop it there, and send this again."
)
NOT_LET_IN: Final = "The gateway does not let you in here."
NOT_KEPT: Final = "This prompt can't be kept as it is. Send it in another form."
NOTHING_SAID: Final = "A prompt needs something in it: text, a picture or a file."
NO_SOUND: Final = "Sound can't be heard here. Send text, a picture or a file."
NOT_BASE64: Final = "{what} is not base64."
FILE_EMPTY: Final = "{what} is empty. Send it with what is in it."
FILE_TOO_LARGE: Final = "{what} is larger than {megabytes} MB. Send a smaller one, or a link to it."
FAILED: Final = "The answer failed. The log says why; send the prompt again to try again."
BROKE_OFF: Final = (
    "The answer broke off because the process that gave it ended. What it had said and done is kept; go on from there."
)
PUT_ASIDE: Final = "The answer was put aside after it had failed again and again. Send the prompt again to try again."
STORE_AWAY: Final = "The store can't be reached now: {reason}"
NO_AGENT: Final = "The agent can't be started: {reason}"

NO_MODE: Final = "There is no mode {mode}; there are {modes}."
NO_OPTION: Final = "There is no option {option}; there are {options}."
NOT_A_CHOICE: Final = "The value of {option} must be one of its choices, as text."
MODE_OPTION: Final = "Permissions"
MODE_OPTION_HELP: Final = "What happens when the agent asks whether it may do something."
MODES: Final = {
    "ask": ("Ask", "You are asked each time."),
    "allow": ("Allow all", "Every question is answered with yes, without asking you."),
    "deny": ("Deny all", "Every question is answered with no, without asking you."),
}
MODEL_OPTION: Final = "Model"
MODEL_OPTION_HELP: Final = "Which model answers in this session."
MODEL_OWN: Final = "The agent's own"
