"""The terminal of this machine as a platform."""

from threadline.platforms.local.platform import Terminal, TerminalOptions, make_terminal

__all__ = ["Terminal", "TerminalOptions", "make_terminal"]
