"""The page and what belongs to it: read once, told to anybody, because there is nothing of anybody's in it."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from threadline.texts import web as texts
from threadline.web.guard import error_json

PAGE: Final = "index.html"
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
    "png": "image/png",
}
# Where the address tells the content apart, it never changes there.
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


class Asset(msgspec.Struct, frozen=True):
    """A file of the page, plain and compressed."""

    kind: str
    content: bytes
    compressed: bytes
    tag: str


class Assets:
    """All files of the page, by name. What is not among them is not there."""

    def __init__(self) -> None:
        folder = files("threadline.web") / "static"
        self._found = {
            path.name: _asset(path.name, path.read_bytes())
            for path in folder.iterdir()
            if path.is_file() and path.name.rpartition(".")[2] in _KINDS
        }

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return self._answer(request, PAGE)

    async def asset(self, request: Request) -> Response:
        """A file that the page asks for."""
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        asset = self._found.get(name)
        if asset is None:
            return error_json(404, "not_found", texts.NO_PAGE if name == PAGE else texts.UNKNOWN_PATH)
        headers = {
            "ETag": asset.tag,
            "Cache-Control": _FOR_EVER if request.query_params.get("v") and name != PAGE else _ASK_AGAIN,
            "Vary": "Accept-Encoding",
        }
        if asset.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.kind)
        return Response(asset.content, headers=headers, media_type=asset.kind)


def _asset(name: str, content: bytes) -> Asset:
    tag = hashlib.sha256(content).hexdigest()[:16]
    return Asset(_KINDS[name.rpartition(".")[2]], content, gzip.compress(content, mtime=0), f'W/"{tag}"')
