"""The API does what its description says, whatever it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from cgsa.service.api import ROUTERS, describe_api
from cgsa.service.api.routing import RoleRoute
from tests.service.running_service import MACHINE, RunningService, running_service

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, RoleRoute)]
THERE = {"machine": MACHINE, "case": 1, "state": 1, "name": "the-viewer"}
ASKED = [(route, "anything") for route in ROUTES if route.name != "stream_events"]
ASKED += [(route, "known") for route, _ in ASKED if "{" in route.path]
"""Once with any names at all, and once with those of what is there; a stream has no end that could be looked at."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One of its own: it is asked to do many things."""
    with running_service(tmp_path_factory.mktemp("described")) as service:
        service.feed(40)
        service.save_states(2)
        yield service


@pytest.fixture(scope="module")
def description(own: RunningService) -> dict[str, Any]:
    mounted = next(route for route in own.app.routes if getattr(route, "path", "") == "/api")
    return describe_api(mounted.app)  # type: ignore[attr-defined] # a mount


@pytest.fixture(scope="module")
def schema(own: RunningService, description: dict[str, Any]) -> Any:
    found = schemathesis.openapi.from_dict(description)
    found.config.update(base_url=f"{own.url}/api")
    return found


@pytest.mark.parametrize(("route", "known"), ASKED, ids=lambda one: getattr(one, "name", one))
def test_every_answer_is_as_described(own: RunningService, schema: Any, route: RoleRoute, known: str) -> None:
    operation = schema[route.path][route.method]
    # Another test tries wrong tokens; and no schema says which bytes are a block.
    left_out = [ignored_auth, *([positive_data_acceptance] if route.name == "take_block" else [])]
    headers = {"Authorization": f"Bearer {own.tokens['admin']}"}

    @settings(max_examples=8, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def check(case: Case[Any]) -> None:
        if known == "known":
            case.path_parameters |= {name: THERE[name] for name in case.path_parameters.keys() & THERE.keys()}
        case.call_and_validate(headers=headers, excluded_checks=left_out)

    check()
