"""The sentences of the web page and its API: errors with what to do next, and the setup card."""

from __future__ import annotations

from typing import Final

NOT_READABLE: Final = "That is no JSON that can be read. Send an object as the description of the API says."
NOT_AS_DESCRIBED: Final = "That is not as the description of the API says: {reason}."
UNKNOWN_CONVERSATION: Final = "You have no such conversation. The list shows those there are."
UNKNOWN_MESSAGE: Final = "The conversation does not show that message any more. Load it again."
BAD_ID: Final = (
    "An id here has 8 to 64 letters, digits, `-` and `_`, and nothing else. Make such an id once for each conversation."
)
ANOTHER_MESSAGE: Final = "Another message was sent under this id before. Use a new id for a new message."
UNKNOWN_PATH: Final = "There is nothing here. `/api/openapi.json` describes what there is."
WRONG_METHOD: Final = "That can't be done here. `/api/openapi.json` describes what can."
UNAVAILABLE: Final = "That can't be done just now. Try again in a moment; `threadline status` says more."
FAULT: Final = "Something is wrong with the server, and its log says what. Try again, or tell its owner."
OWNERS_ALONE: Final = "Only the owner may see this."
NOT_LET_IN: Final = "You may not speak here any more. Ask the owner for a new link."
NOTHING_TO_SAY: Final = "Write something, or attach a file."
STILL_ANSWERING: Final = "Something is still being answered here. Stop it or wait for its end, then edit the message."
NO_PAGE: Final = "The page was not built. `make web` builds it; an installed package brings it along."

# The setup card, shown while only the echo agent answers.
CARD_TITLE: Final = "Choose who answers"
CARD_TEXT: Final = (
    "No agent is configured yet, so everything you write comes back to you as it is. Try it, then let a model or a program of "
    "yours answer."
)
CARD_STEPS: Final = (
    "`threadline config init` writes a configuration to start from, and says where it is.",
    "Name a model in it, under `[agents.main]`; or start with `threadline serve --agent my_agents:answer`, a Python function.",
    "`threadline doctor` looks whether everything is there. Then start `threadline serve` again.",
)
CARD_TEXT_GUEST: Final = (
    "No agent is configured here yet, so everything you write comes back to you as it is. The owner of this installation can "
    "change that."
)

# Requests that are refused, and logging in.
# The name of the owner on the page and for agents.
OWNER_NAME: Final = "Owner"

WRONG_HOST: Final = (
    "This server does not answer under that name. Open the address that `threadline serve` printed, or add the name to "
    "`hosts` in the [web] part of the configuration."
)
CROSS_SITE: Final = "Another site asked for this, so it was refused. Open the page itself and try there."
FOREIGN_ORIGIN: Final = (
    "Only the page itself may do this, or a program with the header `Authorization: Bearer TOKEN`. Behind a proxy, set "
    "`public_url` in the [web] part of the configuration to the address that people open."
)
NOT_JSON: Final = "Send JSON, with the header `Content-Type: application/json`."
TOO_LARGE: Final = "That is more than {limit} bytes, so it was not read. Send less at a time."
NOT_LOGGED_IN: Final = (
    "You are not logged in here. The owner opens the link that `threadline web link` prints; everybody else asks the owner "
    "for a link."
)
WRONG_TOKEN: Final = "This link does not open the page. The owner finds the right one with `threadline web link`."  # noqa: S105
WRONG_INVITE: Final = "This link was used, taken back or has ended. Ask whoever gave it to you for a new one."
TOO_MANY_FAILURES: Final = "There were too many wrong tries from your address. Try again in {seconds} seconds."
