"""HTTP as httptools reads it, with what that leaves to its user: heads have an end, and no other protocol is spoken here."""

from __future__ import annotations

import sys

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024


class BoundedHttp(HttpToolsProtocol):
    """Ends a connection whose head, or trailer, is longer than any that is meant, and reads past the offer of an upgrade."""

    # How much came since something was complete: the parser keeps all of it, however much that is.
    _open_bytes = 0
    _came = b""

    def data_received(self, data: bytes) -> None:
        """Reads what came."""
        self._open_bytes += len(data)
        self._came = data
        super().data_received(data)
        if self._open_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._open_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body is there."""
        self._open_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._open_bytes = 0
        super().on_message_complete()

    def _should_upgrade(self) -> bool:
        # Then the request does not begin before `handle_websocket_upgrade`.
        return True

    def handle_websocket_upgrade(self) -> None:
        """Reads the request again without its offer: Java's client makes one each time, and the parser would pass over the body."""
        offer = sys.exception()
        if self.scope["method"] == "CONNECT" or not isinstance(offer, httptools.HttpParserUpgrade):
            self.send_400_response("This is no proxy.")
            return
        lines = [b"%s %s HTTP/%s" % (self.scope["method"].encode(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        rest = self._came[offer.args[0] :]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)
