"""The API does what its own description says, whatever is sent to it. The description is read from the running server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.peers.web.world import Site, running_site

pytestmark = pytest.mark.peers

SEED = 20260101
EXAMPLES = 25
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EVENTS, LOGIN = "/api/events", "/api/login"
# `POST /api/login` comes last: after ten wrong tries the address is not listened to for a minute.
OPERATIONS = (
    "GET /api/me",
    "GET /api/conversations",
    "GET /api/conversations/{id}",
    "PATCH /api/conversations/{id}",
    "DELETE /api/conversations/{id}",
    "POST /api/conversations/{id}/messages",
    "POST /api/conversations/{id}/buttons",
    "POST /api/conversations/{id}/fork",
    "GET /api/search",
    "POST /api/attachments",
    "GET /api/attachments/{id}",
    "GET /api/events",
    "POST /api/events",
    "POST /api/logout",
    "POST /api/login",
)
KNOWN = "conversation1"
MODES = {"as described": GenerationMode.POSITIVE, "otherwise": GenerationMode.NEGATIVE}
# What takes nothing can't be asked otherwise.
ASKED = [(one, mode) for one in OPERATIONS for mode in MODES if (one, mode) != ("GET /api/me", "otherwise")]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of its own, with one conversation."""
    with running_site(tmp_path_factory.mktemp("described")) as site, site.api as api:
        said = api.post(f"/api/conversations/{KNOWN}/messages", json={"id": "m1", "text": "say hello"})
        assert said.status_code == 202
        yield site


@pytest.fixture(scope="module")
def description(described: Site) -> schemathesis.BaseSchema:
    """As the server gives it. Who asks is the test's to say, not for a guess: ten wrong ones close the door for a minute."""
    told = requests.get(f"{described.address}api/openapi.json", timeout=30).json()
    del told["components"]["securitySchemes"]
    for operations in told["paths"].values():
        for operation in operations.values():
            del operation["security"]
    return schemathesis.openapi.from_dict(told)


def login(site: Site) -> str:
    """The cookie of a browser of the owner."""
    origin = site.address.rstrip("/")
    answer = requests.post(f"{origin}/api/login", json={"token": site.token}, headers={"Origin": origin}, timeout=30)
    return f"threadline={answer.cookies['threadline']}"


@pytest.mark.parametrize("is_owner", [True, False], ids=["owner", "nobody"])
@pytest.mark.parametrize(("operation", "mode"), ASKED)
def test_it_answers_as_described(
    described: Site, description: schemathesis.BaseSchema, operation: str, mode: str, is_owner: bool
) -> None:
    method, _, path = operation.partition(" ")
    origin = described.address.rstrip("/")
    headers = {"Origin": origin} | ({"Cookie": login(described)} if is_owner and path != LOGIN else {})

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=description[path][method].as_strategy(generation_mode=MODES[mode]))
    def answers(case: Any) -> None:
        if path == EVENTS:
            # It has no end: its beginning is looked at.
            kwargs = case.as_transport_kwargs(base_url=origin, headers=headers)
            with requests.request(**kwargs, stream=True, timeout=30) as response:
                assert response.status_code in {200, 400, 401, 403, 404, 415}
                assert response.headers["Content-Type"].startswith(
                    "text/event-stream" if response.ok else "application/json"
                )
            return
        if is_owner and path.startswith("/api/conversations/{id}") and method != "DELETE":
            case.path_parameters = {"id": KNOWN} if len(str(case.path_parameters)) % 2 else case.path_parameters
        case.validate_response(case.call(base_url=origin, headers=headers, timeout=30), checks=CHECKS)

    answers()


def test_nothing_that_the_description_names_is_left_out(description: schemathesis.BaseSchema) -> None:
    operations: list[Any] = [found.ok() for found in description.get_all_operations()]  # type: ignore[union-attr, unused-ignore]
    named = {f"{one.method.upper()} {one.path}" for one in operations}
    assert named == set(OPERATIONS)
