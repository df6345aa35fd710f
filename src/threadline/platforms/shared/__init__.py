"""What platforms share. Text: measure its length, split it, remove its markup, make it safe to show. Pure."""

from threadline.model.safe_text import safe_text
from threadline.platforms.shared.plain import to_plain_text
from threadline.platforms.shared.splitting import split
from threadline.ports.platform import length

__all__ = ["length", "to_plain_text", "safe_text", "split"]
