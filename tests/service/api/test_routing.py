from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import cast

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount

from cgsa.errors import ConfigError
from cgsa.live.plant import Plant
from cgsa.service.api import describe_api
from cgsa.service.api.routing import RoleRoute, Scope, needs, role_router
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.context import MAX_RESULT
from cgsa.service.limits import RequestLimits
from cgsa.service.refusal_log import MAX_SIMILAR
from cgsa.service.rights import ROLES, NeededRole, Person, Role
from cgsa.service.sessions import COOKIE
from tests.service.running_service import BINARY, MACHINE, RunningService, block, running_service

DECISIONS: dict[str, tuple[NeededRole, Scope]] = {
    "show_me": ("any", "none"),
    "describe": ("any", "none"),
    "take_block": ("sender", "body"),
    "show_intake": ("sender", "path"),
    "list_machines": ("viewer", "listed"),
    "list_diagnoses": ("viewer", "listed"),
    "list_notes": ("viewer", "listed"),
    "list_cases": ("viewer", "listed"),
    "show_trends": ("viewer", "path"),
    "show_comparison": ("viewer", "path"),
    "renew_healthy_signal": ("operator", "path"),
    "list_maintenance": ("viewer", "listed"),
    "list_sinks": ("viewer", "all"),
    "acknowledge_cases": ("operator", "body"),
    "shelve_cases": ("operator", "body"),
    "add_maintenance": ("operator", "body"),
    "end_maintenance": ("operator", "body"),
    "stream_events": ("viewer", "listed"),
    "show_metrics": ("viewer", "listed"),
    "show_machine": ("viewer", "path"),
    "show_ledger": ("viewer", "path"),
    "show_case": ("viewer", "path"),
    "show_snippet": ("viewer", "path"),
    "list_states": ("viewer", "path"),
    "compare_states": ("viewer", "path"),
    "acknowledge": ("operator", "path"),
    "shelve": ("operator", "path"),
    "unshelve": ("operator", "path"),
    "close": ("operator", "path"),
    "comment": ("operator", "path"),
    "label": ("operator", "path"),
    "freeze": ("operator", "path"),
    "thaw": ("operator", "path"),
    "confirm_healthy": ("operator", "path"),
    "mark_faulty": ("operator", "path"),
    "repeat_commissioning": ("operator", "path"),
    "take_reference": ("operator", "path"),
    "withdraw_reference": ("operator", "path"),
    "readmit": ("operator", "path"),
    "reset": ("admin", "path"),
    "roll_back": ("admin", "path"),
    "list_tokens": ("admin", "all"),
    "create_token": ("admin", "all"),
    "rotate_token": ("admin", "all"),
    "revoke_token": ("admin", "all"),
    "end_sessions": ("admin", "all"),
    "list_audit": ("admin", "all"),
}
"""Whoever adds a route decides here who may use it, and what it does for a token of some machines."""
PUBLIC = {"/health", "/ready", "/login", "/logout"}
"""Routes without a token."""
HOLDERS = [None, "wrong", *ROLES, *(f"{role} {where}" for role in ROLES for where in ("here", "elsewhere"))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with all that it serves, pages included."""
    limits = RequestLimits(address_rate=1e6, address_burst=1e6)
    with running_service(tmp_path_factory.mktemp("whole"), dashboard=True, limits=limits) as service:
        service.feed(40)
        service.save_states(2)  # which leave notes
        service.plant.store.flush()
        calendar = service.app.state.context.calendar
        calendar.add(Person("ann", "operator"), (MACHINE,), time.time() + 1e6, time.time() + 2e6, reason="new belt")
        yield service


def routes() -> list[tuple[str, RoleRoute]]:
    """All routes of an app that need a token, with their paths."""
    with Plant(Path(mkdtemp()), threads=1) as plant:
        app = create_app(plant, Authenticator(plant.store), runs_plant=False, dashboard=False)
        return [(path, route) for path, route in flat(app.routes) if isinstance(route, RoleRoute)]


def flat(found: Sequence[BaseRoute], prefix: str = "") -> Iterator[tuple[str, BaseRoute]]:
    """Yield all routes with their paths; newer versions of FastAPI keep included routers as they are."""
    for route in found:
        included = getattr(route, "original_router", None)
        if isinstance(route, Mount):
            yield from flat(route.routes, prefix + route.path)
        elif included is not None:
            yield from flat(included.routes, prefix)
        else:
            yield prefix + getattr(route, "path", type(route).__name__), route


ROUTES = routes()
CHANGING = [(path, route) for path, route in ROUTES if route.changes]


def ask(client: httpx.Client, path: str, route: RoleRoute, headers: dict[str, str] | None = None) -> httpx.Response:
    """Send a request that passes the checks and does nothing: there is no such case, state or token."""
    values = {
        "machine": MACHINE,
        "case": "999999",
        "state": "999999",
        "name": "nobody.there",
        "time": "1.5",
        "number": "9",
    }
    address = path.format(**values)
    if route.name == "stream_events":
        with client.stream(route.method, address) as response:
            if response.status_code == 200:
                return response
            response.read()
            return response
    return client.request(route.method, address, json={} if route.changes else None, headers=headers)


def test_every_route_has_its_expected_role_and_scope() -> None:
    assert {route.name: (route.role, route.scope) for _, route in ROUTES} == DECISIONS


def test_no_route_is_without_a_decision(whole: RunningService) -> None:
    others = {path for path, route in flat(whole.app.routes) if not isinstance(route, RoleRoute)}
    assert others == {*PUBLIC, "PageRouter"}
    mounted = next(route for route in whole.app.routes if isinstance(route, Mount))
    described = describe_api(cast("FastAPI", mounted.app))["paths"]
    assert {f"/api{path}" for path in described} | {"/api/openapi.json", "/metrics"} == {path for path, _ in ROUTES}
    for path, ways in described.items():
        for way in ways.values():
            assert (way["x-role"], way["x-scope"]) in DECISIONS.values(), path


@pytest.mark.parametrize(("path", "route"), ROUTES, ids=[route.name for _, route in ROUTES])
def test_each_token_is_limited_to_its_routes_and_machines(whole: RunningService, path: str, route: RoleRoute) -> None:
    for who in HOLDERS:
        token = f"cgsa.the-viewer-{route.name}.{'A' * 43}" if who == "wrong" else who
        with whole.client(token) as client:
            response = ask(client, path, route)
        role, _, where = (who or "").partition(" ")
        if who is None or who == "wrong":
            assert response.status_code == 401, who
            assert response.headers["WWW-Authenticate"] == "Bearer"
        elif not Person("x", cast("Role", role)).may(route.role) or (where and route.scope == "all"):
            assert response.status_code == 403, who
        elif where == "elsewhere" and route.scope == "path":
            assert response.status_code == 404, who
            assert response.json()["error"]["message"] == f"no machine {MACHINE!r} is monitored here"
        else:
            assert response.status_code not in {401, 403, 500}, who
            if route.scope == "listed" and route.name != "stream_events":
                # It lists what belongs to the machines of the token.
                assert (MACHINE in response.text) == (where != "elsewhere"), who
        if response.status_code >= 400:
            assert set(response.json()["error"]) == {"kind", "message", "where"}


@pytest.mark.parametrize("path", ["/", f"/machine/{MACHINE}", "/_nicegui/anything", "/_nicegui_ws/socket.io/?EIO=4"])
def test_pages_and_what_they_consist_of_need_a_session(whole: RunningService, path: str) -> None:
    for who in (None, "sender", f"cgsa.gone.{'A' * 43}"):
        with whole.client(who, follow_redirects=False) as client:
            answer = client.get(path)
        if path.startswith("/_nicegui") and who == "sender":
            continue  # files of a public library; the page that uses them is not shown
        assert answer.status_code in {303, 401}
        assert answer.headers.get("Location", "/login").startswith("/login")


def test_pages_show_the_machines_of_the_token(whole: RunningService) -> None:
    with whole.client("viewer elsewhere") as client:
        assert f"No machine {MACHINE} is monitored" in client.get(f"/machine/{MACHINE}").text
    with whole.client("viewer here") as client:
        assert f"No machine {MACHINE} is monitored" not in client.get(f"/machine/{MACHINE}").text


def test_a_token_sends_blocks_of_its_machines_only(whole: RunningService) -> None:
    statuses = {}
    for who in ("sender here", "sender elsewhere", "operator elsewhere", "viewer here"):
        with whole.client(who) as client:
            statuses[who] = client.post("/api/blocks", content=block(40).to_bytes(), headers=BINARY).status_code
    assert statuses == {"sender here": 202, "sender elsewhere": 404, "operator elsewhere": 404, "viewer here": 403}


def test_a_filter_reveals_nothing_of_other_machines(whole: RunningService) -> None:
    with whole.client("viewer elsewhere") as client:
        for table in ("cases", "diagnoses", "notes"):
            assert client.get(f"/api/{table}", params={"machine": MACHINE}).json()["rows"] == []
        assert client.get("/api/events", params={"machine": MACHINE}).status_code == 404


@pytest.fixture
def cookies(whole: RunningService) -> Iterator[dict[str, str]]:
    value = whole.authenticator.log_in(whole.tokens["admin"])
    yield {COOKIE: value}
    whole.authenticator.log_out(value)


@pytest.mark.parametrize(("path", "route"), CHANGING, ids=[route.name for _, route in CHANGING])
def test_pages_of_other_sites_cannot_use_a_cookie(
    whole: RunningService, path: str, route: RoleRoute, cookies: dict[str, str]
) -> None:
    def status(**headers: str) -> int:
        with whole.client(None, cookies=cookies) as client:
            return ask(client, path, route, headers=headers).status_code

    assert status() == 403
    assert status(**{"Sec-Fetch-Site": "cross-site"}) == 403
    assert status(Origin="http://evil.example") == 403
    assert status(**{"X-CGSA": "1"}) not in {401, 403, 500}
    assert status(Origin=whole.url) not in {401, 403, 500}


def test_a_route_without_a_role_and_scope_cannot_be_made() -> None:
    router = role_router()
    with pytest.raises(ConfigError, match="route /secret has no role"):
        router.get("/secret")(lambda: None)
    with pytest.raises(ConfigError, match="has no role"):
        router.get("/secret", openapi_extra={"x-role": "root"})(lambda: None)
    with pytest.raises(ConfigError, match="has no scope"):
        router.get("/secret", openapi_extra={"x-role": "viewer"})(lambda: None)
    with pytest.raises(ConfigError, match="has no scope that fits"):
        router.get("/{machine}/secret", **needs("viewer", scope="none"))(lambda: None)
    router.get("/secret", **needs("viewer", scope="none"))(lambda: None)


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
            for number in range(MAX_SIMILAR + 5):
                nobody.post(f"/api/machines/{'m' * 100}{number}/labels", json={})
        service.app.state.context.refusals.summarise()
        found = service.audit(who="nobody")
    summary, *written = found
    assert (summary.what, summary.result, summary.details) == ("refused requests", "5 more", {"401 label": 5})
    assert len(written) == MAX_SIMILAR
    assert "not written down" in str(written[0].details["more"])
    assert all(len(entry.result) <= MAX_RESULT and len(entry.machine or "") <= 64 for entry in written)
