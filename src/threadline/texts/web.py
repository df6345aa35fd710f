"""The catalogue of the web page's API: what is told to whoever asks for what can't be had, and what to do next."""

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

# What a page shows whose agent only says back what it hears.
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
