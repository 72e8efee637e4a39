from __future__ import annotations

import time

import pytest

from cgsa.service.rights import ROLES
from tests.service.running_service import RunningService


def test_everybody_can_read_their_own_name_and_role(service: RunningService) -> None:
    for role in ROLES:
        with service.client(role) as client:
            assert client.get("/api/me").json() == {"name": f"the-{role}", "role": role, "machines": []}


def test_a_token_is_created_used_and_revoked(service: RunningService) -> None:
    with service.client("admin") as admin:
        made = admin.post("/api/tokens", json={"name": "gateway-7", "role": "operator"})
        assert made.status_code == 201
        with service.client(made.json()["token"]) as gateway:
            assert gateway.get("/api/me").json() == {"name": "gateway-7", "role": "operator", "machines": []}
            listed = admin.get("/api/tokens").json()["tokens"]
            mine = next(one for one in listed if one["name"] == "gateway-7")
            assert (mine["role"], mine["revoked"]) == ("operator", None)
            assert mine["created"] <= time.time()
            assert "digest" not in mine
            again = admin.post("/api/tokens", json={"name": "gateway-7", "role": "admin"})
            assert again.status_code == 409
            assert admin.delete("/api/tokens/gateway-7").status_code == 204
            assert gateway.get("/api/me").status_code == 401
        assert admin.delete("/api/tokens/gateway-7").status_code == 404
        ended = next(one for one in admin.get("/api/tokens").json()["tokens"] if one["name"] == "gateway-7")
        assert ended["revoked"] is not None


def test_a_token_is_rotated_with_an_overlap(service: RunningService) -> None:
    with service.client("admin") as admin:
        wanted = {"name": "rotated", "role": "sender", "machines": ["pump-*"], "lifetime": 3600}
        old = admin.post("/api/tokens", json=wanted).json()["token"]
        answer = admin.post("/api/tokens/rotated/rotate", json={"overlap": 60})
        assert answer.status_code == 200
        new = answer.json()["token"]
        for token in (old, new):
            with service.client(token) as client:
                expected = {"name": "rotated", "role": "sender", "machines": ["pump-*"]}
                assert client.get("/api/me").json() == expected
        newest = admin.post("/api/tokens/rotated/rotate", json={"lifetime": 7200}).json()["token"]
        statuses = []
        for token in (old, new, newest):
            with service.client(token) as client:
                statuses.append(client.get("/api/me").status_code)
        assert statuses == [401, 401, 200]
        (listed,) = [one for one in admin.get("/api/tokens").json()["tokens"] if one["name"] == "rotated"]
        assert listed["expires"] == pytest.approx(time.time() + 7200, abs=600)
        assert listed["previous_until"] <= time.time()
        assert not {"digest", "previous"} & listed.keys()
        assert admin.post("/api/tokens/nobody.there/rotate", json={}).status_code == 404
    assert "cgsa.rotated" not in repr(service.audit()), "no secret is written down"


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ({"name": "x"}, "body.role"),
        ({"name": "x", "role": "root"}, "body.role"),
        ({"name": "a b", "role": "viewer"}, "body.name"),
        ({"name": "x\n", "role": "viewer"}, "body.name"),
        ({"name": "x", "role": "viewer", "digest": "mine"}, "body.digest"),
        ({"name": "x", "role": "viewer", "lifetime": 0}, "body.lifetime"),
        ({"name": "x", "role": "viewer", "machines": ["x"] * 65}, "body.machines"),
    ],
)
def test_invalid_tokens_are_refused(service: RunningService, wanted: dict[str, str], where: str) -> None:
    with service.client("admin") as client:
        answer = client.post("/api/tokens", json=wanted)
    assert answer.status_code == 422
    assert answer.json()["error"]["where"] == where


def test_patterns_of_machines_are_checked(service: RunningService) -> None:
    with service.client("admin") as client:
        for pattern in ("", "[a-z]", "a b", "x\n", ".*"):
            answer = client.post("/api/tokens", json={"name": "patterns", "role": "viewer", "machines": [pattern]})
            assert answer.status_code == 422, pattern


def test_names_of_the_service_itself_are_reserved(service: RunningService) -> None:
    with service.client("admin") as client:
        assert client.post("/api/tokens", json={"name": "service", "role": "viewer"}).status_code == 409


def test_the_audit_is_read_by_person_and_page(service: RunningService) -> None:
    with service.client("admin") as client:
        for number in range(3):
            client.post("/api/tokens", json={"name": f"paged-{number}", "role": "viewer"})
        service.plant.store.flush()
        first = client.get("/api/audit", params={"who": "the-admin", "limit": 2}).json()
        rest = client.get("/api/audit", params={"who": "the-admin", "limit": 1, "after": first["cursor"]}).json()
        assert client.get("/api/audit", params={"who": "someone"}).json()["rows"] == []
    names = [row["details"]["name"] for row in (*first["rows"], *rest["rows"])]
    assert names == ["paged-2", "paged-1", "paged-0"]
