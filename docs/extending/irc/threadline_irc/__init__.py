"""IRC for Threadline."""

from threadline_irc.platform import Irc, IrcOptions, make_irc

__all__ = ["Irc", "IrcOptions", "make_irc"]
