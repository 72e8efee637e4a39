from __future__ import annotations

from pathlib import Path

import httpx

from cgsa.live.plant import MachineConfig, Plant
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.dashboard.router import is_page_path
from tests.machines import bundle
from tests.service.running_service import serving


def test_only_requests_for_pages_are_routed() -> None:
    own = ("/", "/alarms", "/machine/pump-1", "/_nicegui/3/static/nicegui.js", "/_nicegui_ws/socket.io/")
    others = ("/api/machines", "/alarms/1", "/machine", "/login", "/anything")
    assert [path for path in (*own, *others) if is_page_path(path)] == list(own)


def test_services_in_one_process_show_their_own_machines(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    for name in ("one", "two", "one"):
        with Plant(tmp_path / name, threads=1) as plant:
            plant.add(MachineConfig(name, tmp_path / "model", profile="paper"))
            authenticator = Authenticator(plant.store)
            token = authenticator.create_token(f"ann-{len(authenticator.tokens())}", "viewer")
            headers = {"Authorization": f"Bearer {token}"}
            with (
                serving(create_app(plant, authenticator, runs_plant=False)) as url,
                httpx.Client(base_url=url, timeout=20) as client,
            ):
                assert client.get("/").headers["location"] == "/login?next=%2F"
                mine = client.get(f"/machine/{name}", headers=headers)
                assert mine.status_code == 200
                assert "No machine" not in mine.text
                other = "two" if name == "one" else "one"
                assert f"No machine {other} is monitored" in client.get(f"/machine/{other}", headers=headers).text
                unknown = client.get("/unknown", headers=headers)
                assert unknown.status_code == 404
                assert "error" in unknown.json()
            assert not plant._listeners
