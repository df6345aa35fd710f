"""The catalogue of access: what strangers and people who were just let in are told in their chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threadline.model.access import Role

PAIRING_CODE: Final = (
    "Hello! I don't know you yet, so I did not keep what you wrote. If we should talk, ask my owner to run this on my "
    "machine within an hour:\n\n`threadline pair approve {code}`"
)
PAIRED: Final[dict[Role, str]] = {
    "guest": "You are welcome here now. Write to me as to anyone; /help shows what else you can do.",
    "trusted": "You are welcome here now, and trusted. /help shows what you can do.",
    "owner": "You are my owner now. /help shows what you can do.",
}
