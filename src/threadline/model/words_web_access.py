"""The catalogue of the web page's door: what is told to whoever is not let through, and to those who just were."""

from __future__ import annotations

from typing import Final

# What the owner is called on the page and towards agents, who has no name there.
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
