"""The list of alarms over all machines, commands about several of them, maintenance and receivers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cgsa.live.alarms import AlarmConfig
from cgsa.live.commands import Command
from cgsa.live.plant import MachineConfig
from tests.machines import bundle
from tests.service.running_service import MACHINE, RunningService, block, running_service

SECOND = "pump-2"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Two machines: the first with a closed and an open case, the second with an open one."""
    folder = tmp_path_factory.mktemp("list")
    with running_service(folder) as found:
        bundle().save(folder / "another")
        alarms = AlarmConfig(on_delay=0.1, severities={"wear": "low", "crack": "low"})
        found.plant.add(MachineConfig(SECOND, folder / "another", profile="paper", alarms=alarms))
        found.feed(40)
        found.plant.worker(MACHINE).command(Command("close", "ann")).result(10)
        found.feed(40, first=40)
        for sequence in range(40):
            found.plant.submit(block(sequence, machine=SECOND))
        found.plant.wait_until_idle()
        found.plant.store.flush()
        yield found


@pytest.fixture
def operator(plant: RunningService) -> Iterator[httpx.Client]:
    with plant.client("operator") as client:
        yield client


def listed(client: httpx.Client, **wanted: object) -> list[tuple[str, int]]:
    answer = client.get("/api/cases", params=wanted).raise_for_status().json()  # type: ignore[arg-type]
    return sorted((row["machine"], row["case"]["number"]) for row in answer["rows"])


def test_cases_are_found_by_what_an_operator_looks_for(operator: httpx.Client, plant: RunningService) -> None:
    everything = [(MACHINE, 1), (MACHINE, 2), (SECOND, 1)]
    fault = plant.plant.worker(SECOND).watch.alarms.case
    assert fault is not None
    assert listed(operator) == everything
    assert listed(operator, only_open=True) == everything[1:]
    assert listed(operator, state="closed") == everything[:1]
    assert listed(operator, state=["closed", "raised"]) == everything
    assert listed(operator, severity="low") == everything[2:]
    assert listed(operator, machine="*-1", only_open=True) == everything[1:2]
    assert listed(operator, fault=fault.fault, machine=SECOND) == everything[2:]
    assert listed(operator, fault="no such class") == []
    assert listed(operator, acknowledged=True) == []
    assert listed(operator, begin=fault.opened + 1e6) == []
    first = operator.get("/api/cases", params={"limit": 2}).json()
    rest = operator.get("/api/cases", params={"limit": 2, "after": first["cursor"]}).json()
    assert (len(first["rows"]), first["more"], len(rest["rows"]), rest["more"]) == (2, True, 1, False)
    assert operator.get("/api/cases", params={"state": "odd"}).status_code == 422


def test_several_cases_are_acknowledged_and_shelved_by_their_numbers(tmp_path: Path) -> None:
    with running_service(tmp_path) as found, found.client("operator") as client:
        found.feed(40)
        seen = [{"machine": MACHINE, "case": 1}, {"machine": "fan", "case": 1}, {"machine": MACHINE, "case": 7}]
        answer = client.post("/api/cases/shelve", json={"cases": seen, "seconds": 60, "text": "shift"}).json()
        assert answer["results"] == [
            {"machine": MACHINE, "case": 1, "done": True, "refused": None},
            {"machine": "fan", "case": 1, "done": False, "refused": "no machine 'fan' is monitored here"},
            {"machine": MACHINE, "case": 7, "done": False, "refused": f"{MACHINE} has no case 7"},
        ]
        found.plant.store.flush()
        assert listed(client, state="shelved") == [(MACHINE, 1)]
        found.plant.worker(MACHINE).command(Command("close", "another")).result(10)
        found.feed(40, first=40)
        answer = client.post("/api/cases/acknowledge", json={"cases": seen[:1], "text": "all seen"}).json()
        assert answer["results"][0]["refused"] == f"case 1 of {MACHINE} is over; its newest is 2"
        answer = client.post("/api/cases/acknowledge", json={"cases": [{"machine": MACHINE, "case": 2}]}).json()
        assert answer["results"][0]["done"]
        found.plant.store.flush()
        assert listed(client, acknowledged=True, only_open=True) == [(MACHINE, 2)]
        written = [(one.what, one.machine, one.result[:3]) for one in found.audit()[:5]]
        assert written[:2] == [("acknowledge", MACHINE, "ok"), ("acknowledge", MACHINE, "409")]
        assert {one[0] for one in written[2:]} == {"shelve"}
        with found.client("operator elsewhere") as other:
            answer = other.post("/api/cases/acknowledge", json={"cases": [{"machine": MACHINE, "case": 2}]}).json()
        assert answer["results"][0]["refused"] == f"no machine {MACHINE!r} is monitored here"


def test_maintenance_is_entered_listed_and_ended(operator: httpx.Client, plant: RunningService) -> None:
    now = time.time()
    wanted = {"machines": ["pump-?"], "end": now + 3600, "reason": "new belt"}
    with plant.client("viewer") as viewer:
        assert viewer.post("/api/maintenance", json=wanted).status_code == 403
    with plant.client("operator elsewhere") as other:
        refused = other.post("/api/maintenance", json=wanted)
        assert (refused.status_code, "valid for other machines" in refused.text) == (409, True)
    made = operator.post("/api/maintenance", json=wanted)
    assert made.status_code == 201
    about = made.json()
    assert (about["now"], about["who"], about["next_end"]) == (True, "the-operator", now + 3600)
    later = {**wanted, "machines": ["fan"], "begin": now + 60, "repeats": "weekly", "zone": "Europe/Berlin"}
    assert operator.post("/api/maintenance", json=later).json()["now"] is False
    assert [one["machines"] for one in operator.get("/api/maintenance").json()["maintenance"]] == [["fan"], ["pump-?"]]
    with plant.client("viewer here") as here, plant.client("viewer elsewhere") as elsewhere:
        assert [one["machines"] for one in here.get("/api/maintenance").json()["maintenance"]] == [["pump-?"]]
        assert elsewhere.get("/api/maintenance").json() == {"maintenance": []}
    with plant.client("operator elsewhere") as other:
        assert other.post(f"/api/maintenance/{about['number']}/end").status_code == 404
    ended = operator.post(f"/api/maintenance/{about['number']}/end").json()
    assert (ended["now"], ended["ended_by"], ended["next_begin"]) == (False, "the-operator", None)
    assert operator.post(f"/api/maintenance/{about['number']}/end").status_code == 409
    assert operator.post("/api/maintenance/99/end").status_code == 404
    found = [(one.what, one.who, one.result[:3]) for one in plant.audit(who="the-operator")]
    assert [one for one in found if "maintenance" in one[0]] == [
        ("end maintenance", "the-operator", "404"),
        ("end maintenance", "the-operator", "409"),
        ("end maintenance", "the-operator", "ok"),
        ("add maintenance", "the-operator", "ok"),
        ("add maintenance", "the-operator", "ok"),
    ]


def test_without_sinks_nobody_is_notified_and_the_list_says_so(operator: httpx.Client) -> None:
    assert operator.get("/api/sinks").json() == {"sinks": []}
    case = operator.get(f"/api/machines/{MACHINE}/cases/2").json()
    assert (case["notification"]["state"], case["deliveries"]) == ("none", [])
