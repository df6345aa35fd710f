"""What platforms do to text: measure it, cut it, take its markup away, make it harmless. Pure."""

from threadline.model.safe_text import safe_text
from threadline.platforms.shared.plain import to_plain_text
from threadline.platforms.shared.splitting import split
from threadline.ports.platform import length

__all__ = ["length", "to_plain_text", "safe_text", "split"]
