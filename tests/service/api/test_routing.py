from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from cgsa.errors import ConfigError
from cgsa.service.api import ROUTERS, describe_api
from cgsa.service.api.routing import RoleRoute, needs, role_router
from cgsa.service.auth import ROLES
from cgsa.service.context import MAX_RESULT, MAX_SIMILAR_REFUSALS
from cgsa.service.sessions import COOKIE
from tests.service.running_service import MACHINE, RunningService, running_service

CHANGING = {
    "acknowledge": "operator",
    "shelve": "operator",
    "unshelve": "operator",
    "close": "operator",
    "comment": "operator",
    "label": "operator",
    "freeze": "operator",
    "thaw": "operator",
    "take_block": "operator",
    "confirm_healthy": "operator",
    "mark_faulty": "operator",
    "repeat_commissioning": "operator",
    "take_reference": "operator",
    "readmit": "operator",
    "withdraw_reference": "operator",
    "reset": "admin",
    "roll_back": "admin",
    "create_token": "admin",
    "revoke_token": "admin",
}
"""Whoever adds a route that changes something decides here who may use it."""
READING = {"list_tokens": "admin", "list_audit": "admin"}
"""All others are for everybody who has a token."""


def routes() -> list[RoleRoute]:
    found = [route for router in ROUTERS for route in router.routes]
    assert all(isinstance(route, RoleRoute) for route in found)
    return [route for route in found if isinstance(route, RoleRoute)]


def changing() -> list[RoleRoute]:
    return [route for route in routes() if route.changes]


def address(route: RoleRoute) -> tuple[str, str]:
    """A request to a route that passes its authenticator and does nothing: there is no such case, state or token."""
    values = {"machine": MACHINE, "case": "999999", "state": "999999", "name": "nobody.there", "time": "1.5"}
    return route.method, "/api" + route.path.format(**values)


def ask(client: httpx.Client, route: RoleRoute, headers: dict[str, str] | None = None) -> httpx.Response:
    method, path = address(route)
    if route.name == "stream_events":
        with client.stream(method, path) as response:
            if response.status_code == 200:
                return response
            response.read()
            return response
    return client.request(method, path, json={} if route.changes else None, headers=headers)


def test_every_changing_route_has_its_expected_role() -> None:
    assert {route.name: route.role for route in changing()} == CHANGING


def test_every_reading_route_has_its_expected_role() -> None:
    found = {route.name: route.role for route in routes() if not route.changes}
    assert {name: role for name, role in found.items() if role != "viewer"} == READING


def test_the_app_has_no_other_routes(service: RunningService) -> None:
    mounted = next(route for route in service.app.routes if getattr(route, "path", "") == "/api")
    described = describe_api(mounted.app)["paths"]  # type: ignore[attr-defined] # a mount
    assert {(method.upper(), path) for path, ways in described.items() for method in ways} == {
        (route.method, route.path) for route in routes()
    }
    for path, ways in described.items():
        for way in ways.values():
            assert way["x-role"] in ROLES, path
    outside = {route.path for route in service.app.routes if isinstance(route, Route)}
    assert outside <= {"/health", "/ready", "/login", "/logout", "/metrics"}


@pytest.mark.parametrize("who", [None, "wrong", *ROLES])
@pytest.mark.parametrize("route", routes(), ids=lambda route: route.name)
def test_each_role_is_limited_to_its_routes(service: RunningService, route: RoleRoute, who: str | None) -> None:
    token = f"cgsa.the-viewer-{route.name}.{'A' * 43}" if who == "wrong" else who
    with service.client(token) as client:
        response = ask(client, route)
    if who is None or who == "wrong":
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
    elif ROLES.index(route.role) > ROLES.index(who):
        assert response.status_code == 403
    else:
        assert response.status_code not in {401, 403, 500}
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"kind", "message", "where"}


@pytest.fixture
def cookies(service: RunningService) -> Iterator[dict[str, str]]:
    value = service.authenticator.log_in(service.tokens["admin"])
    yield {COOKIE: value}
    service.authenticator.log_out(value)


@pytest.mark.parametrize("route", changing(), ids=lambda route: route.name)
def test_pages_of_other_sites_cannot_use_a_cookie(
    service: RunningService, route: RoleRoute, cookies: dict[str, str]
) -> None:
    def status(**headers: str) -> int:
        with service.client(None, cookies=cookies) as client:
            return ask(client, route, headers=headers).status_code

    assert status() == 403
    assert status(**{"Sec-Fetch-Site": "cross-site"}) == 403
    assert status(Origin="http://evil.example") == 403
    assert status(**{"X-CGSA": "1"}) not in {401, 403, 500}
    assert status(Origin=service.url) not in {401, 403, 500}


def test_a_route_without_a_role_cannot_be_made() -> None:
    router = role_router()
    with pytest.raises(ConfigError, match="route /secret has no role"):
        router.get("/secret")(lambda: None)
    with pytest.raises(ConfigError, match="has no role"):
        router.get("/secret", openapi_extra={"x-role": "root"})(lambda: None)
    router.get("/secret", **needs("viewer"))(lambda: None)


def test_the_role_is_checked_before_the_body_is_read(service: RunningService) -> None:
    with service.client("viewer") as client:
        assert client.post("/api/tokens", content=b"{no json").status_code == 403
        assert client.post("/api/blocks", content=b"anything").status_code == 403
    with service.client("admin") as client:
        assert client.post("/api/tokens", content=b"{no json").status_code == 422


def test_changes_and_refusals_are_audited(service: RunningService) -> None:
    path = f"/api/machines/{MACHINE}/learning"
    with service.client("admin") as admin, service.client("operator") as operator, service.client("viewer") as viewer:
        for name in ("freeze", "freeze", "thaw"):
            operator.post(f"{path}/{name}", json={"text": "a look at it"})
        viewer.post(f"{path}/thaw", json={})
        viewer.get("/api/machines")
        admin.post("/api/tokens", json={"name": "written-down", "role": "viewer"})
        admin.delete("/api/tokens/written-down")
        with service.client(None) as nobody:
            nobody.delete("/api/tokens/written-down")
    found = [(entry.who, entry.what, entry.machine, entry.result) for entry in reversed(service.audit()[:7])]
    frozen = f"409 learning of {MACHINE} is already frozen"
    assert found == [
        ("the-operator", "freeze", MACHINE, "ok"),
        ("the-operator", "freeze", MACHINE, frozen),
        ("the-operator", "thaw", MACHINE, "ok"),
        ("the-viewer", "thaw", MACHINE, "403 the-viewer is viewer; that needs operator"),
        ("the-admin", "create token", None, "ok"),
        ("the-admin", "revoke token", None, "ok"),
        ("nobody", "revoke token", None, found[-1][3]),
    ]
    assert found[-1][3].startswith("401 ")
    entries = service.audit()
    assert {entry.origin for entry in entries[:7]} == {"127.0.0.1"}
    assert entries[6].details == {"text": "a look at it"}
    assert entries[2].details == {"name": "written-down", "role": "viewer"}
    assert entries[1].details == {"name": "written-down"}
    assert "cgsa." not in repr(entries), "no secret is written down"


def test_one_client_cannot_fill_the_audit_with_refusals(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        with service.client(None) as nobody:
            for number in range(MAX_SIMILAR_REFUSALS + 5):
                nobody.post(f"/api/machines/{'m' * 100}{number}/labels", json={})
        found = service.audit(who="nobody")
    assert len(found) == MAX_SIMILAR_REFUSALS
    assert "not written down" in str(found[0].details["more"])
    assert all(len(entry.result) <= MAX_RESULT and len(entry.machine or "") <= 64 for entry in found)
