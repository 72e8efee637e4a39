from __future__ import annotations

from pathlib import Path

import httpx

from cgsa.live.plant import MachineConfig, Plant
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.dashboard.router import is_own
from tests.machines import bundle
from tests.service.running_service import serving


def test_only_what_belongs_to_the_pages_goes_through() -> None:
    own = ("/", "/machine/pump-1", "/_nicegui/3/static/nicegui.js", "/_nicegui_ws/socket.io/")
    others = ("/api/machines", "/machine", "/login", "/anything")
    assert [path for path in (*own, *others) if is_own(path)] == list(own)


def test_two_services_in_one_process_show_each_their_own(tmp_path: Path) -> None:
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
                assert f"No machine {other} is watched" in client.get(f"/machine/{other}", headers=headers).text
                unheard_of = client.get("/unheard-of", headers=headers)
                assert unheard_of.status_code == 404
                assert "error" in unheard_of.json()
            assert not plant._listeners
