"""The description of the API, in OpenAPI 3.1, made from its table and its shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from threadline.version import __version__
from threadline.web.endpoints import ENDPOINTS, Answer, Endpoint
from threadline.web.shapes import ID, Gone, Grown, NewMessages, Notice, Problem, Settled, State

_TEMPLATE = "#/components/schemas/{name}"
# What the stream of events tells, besides snapshots and rows of the list.
_TOLD = (Grown, Settled, NewMessages, State, Notice, Gone)
_COMMON = {
    400: "What was sent is not as described.",
    401: "They have not shown who they are.",
    403: "It came from another site, or may not be done by them.",
    413: "It is too long.",
    415: "It is not JSON.",
    421: "The request was not meant for this server.",
    429: "There were too many wrong tries from that address.",
    503: "It can't be done just now.",
}
_KINDS = {"events": "text/event-stream", "bytes": "application/octet-stream"}


def describe(endpoints: Sequence[Endpoint] = ENDPOINTS) -> dict[str, Any]:
    """The description, as plain values."""
    shapes: list[type[msgspec.Struct]] = [*_shapes(endpoints), Problem, *_TOLD]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_TEMPLATE)
    named = dict(zip((shape.__name__ for shape in shapes), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, named, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Threadline", "version": __version__, "summary": "Conversations of the web page."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "threadline"},
            },
        },
    }


def _shapes(endpoints: Sequence[Endpoint]) -> list[type[msgspec.Struct]]:
    found: dict[str, type[msgspec.Struct]] = {}
    for endpoint in endpoints:
        for shape in (endpoint.body, endpoint.query, endpoint.response):
            if shape is not None and not isinstance(shape, str):
                found[shape.__name__] = shape
    return list(found.values())


def _operation(endpoint: Endpoint, named: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "security": [] if endpoint.work is None else [{"token": []}, {"cookie": []}],
        "responses": {str(endpoint.status): _success(endpoint.response, named)} | dict(_refusals(endpoint, named)),
    }
    parameters = [*_of_path(endpoint), *_of_query(endpoint, components)]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": named[endpoint.body.__name__]}},
        }
    return operation


def _success(answer: Answer, named: dict[str, Any]) -> dict[str, Any]:
    if answer == "nothing":
        return {"description": "It is done."}
    if isinstance(answer, str):
        return {"description": "As it comes.", "content": {_KINDS[answer]: {"schema": {"type": "string"}}}}
    return {"description": "It is so.", "content": {"application/json": {"schema": named[answer.__name__]}}}


def _refusals(endpoint: Endpoint, named: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for status, why in sorted((_COMMON | dict(endpoint.errors)).items()):
        yield str(status), {"description": why, "content": {"application/json": {"schema": named[Problem.__name__]}}}


def _of_path(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    if "{id}" in endpoint.path:
        yield {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": ID}}


def _of_query(endpoint: Endpoint, components: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if endpoint.query is not None:
        for name, schema in components[endpoint.query.__name__]["properties"].items():
            yield {"name": name, "in": "query", "required": False, "schema": schema}


def _operation_id(endpoint: Endpoint) -> str:
    words = [part.strip("{}") for part in endpoint.path.split("/") if part and part != "api"]
    return "_".join([endpoint.method.lower(), *words])
