"""The web page as a platform."""

from threadline.platforms.web.platform import WebPlatform

__all__ = ["WebPlatform"]
