from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgsa.errors import ConfigError, DataError
from cgsa.live import plant as plant_module
from cgsa.live.intake.block import MAX_HEADER_BYTES
from cgsa.live.plant import Plant
from cgsa.live.worker import WorkerConfig
from cgsa.service.sources import SOURCES, base, create_source
from cgsa.service.sources.base import Source
from tests.service.sources.counterparts import block, plant_of, running, until


class Hands(Source):
    """A source that does nothing by itself."""

    kind = "hands"
    Config: ClassVar[type[object]] = object

    def __init__(self, plant: Plant) -> None:
        super().__init__(plant, object())

    async def connect(self) -> None:
        await self.came_up()


def test_blocks_of_both_forms_are_accepted_and_counted(tmp_path: Path) -> None:
    async def main(plant: Plant) -> None:
        source = Hands(plant)
        await source.accept(block(0).to_bytes(), "m1")
        await source.accept(block(1).to_json().encode())
        assert source.status.counts == {
            "blocks": 2,
            "bytes": 1600,
            "malformed": 0,
            "overloads": 0,
            "lost": 0,
            "disconnects": 0,
            "reconnects": 0,
        }

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        plant.wait_until_idle()
        counts = plant.worker("m1").status().counts
        assert (counts.blocks, counts.refused_blocks, counts.gaps) == (2, 0, 0)


def test_an_unusable_block_is_counted_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(plant: Plant) -> None:
        source = Hands(plant)
        for number, (payload, machine, note) in enumerate(
            [
                (b"", None, "not JSON"),
                (block(0).to_bytes()[:-1], None, "checksum differs"),
                (block(0, "m2").to_bytes(), None, "no machine 'm2' is monitored"),
                (block(0).to_bytes(), "m2", "block of m1 in a message for m2"),
            ],
            1,
        ):
            await source.accept(payload, machine)
            assert note in source.status.note
            assert source.status.counts["malformed"] == number
        monkeypatch.setattr(base, "MAX_PAYLOAD_BYTES", MAX_HEADER_BYTES + 799)
        await source.accept(block(0).to_bytes())
        assert "800 bytes of samples; expected at most 799" in source.status.note
        assert source.status.counts["blocks"] == 0

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        assert not plant.worker("m1").has_work


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.builds(lambda n, b: block(0).to_bytes()[:n] + b, st.integers(0, 900), st.binary()))
def test_garbage_never_raises(payload: bytes) -> None:
    class Nowhere:
        workers: ClassVar[dict[str, object]] = {}

    source = Hands(Nowhere())  # type: ignore[arg-type] # garbage reaches no machine
    asyncio.run(source.accept(payload))
    assert source.status.counts["malformed"] == 1


def test_overload_makes_the_source_wait_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "RETRY_SECONDS", 0.01)
    config = WorkerConfig(shed_below=0.1, shed_above=0.2, max_waiting=0.45)

    async def main(plant: Plant) -> None:
        source = Hands(plant)
        sending = asyncio.create_task(_send(source, 12))
        await until(lambda: source.status.counts["overloads"] == 1)
        await asyncio.sleep(0.1)
        assert source.status.counts["blocks"] < 12
        assert not sending.done()
        assert "send this block again later" in source.status.note
        plant.start()
        await sending
        assert source.status.counts["blocks"] == 12

    with monkeypatch.context() as held:
        held.setattr(plant_module.Plant, "__enter__", lambda self: self)
        with plant_of(tmp_path, config=config) as plant:
            asyncio.run(main(plant))
            plant.wait_until_idle()
            counts = plant.worker("m1").status().counts
            assert (counts.blocks, counts.refused_blocks, counts.gaps) == (12, 0, 0)


async def _send(source: Source, number: int) -> None:
    for n in range(number):
        await source.submit(block(n))


def test_an_unwritable_journal_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise DataError("the disk is full")

    async def main(plant: Plant) -> None:
        source = Hands(plant)
        with monkeypatch.context() as broken:
            broken.setattr(plant, "submit", full)
            with pytest.raises(DataError, match="the disk is full"):
                await source.accept(block(0).to_bytes())
        assert (source.status.counts["malformed"], source.status.counts["blocks"]) == (0, 0)

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))


def test_machines_get_a_note_when_their_source_goes_up_or_down(tmp_path: Path) -> None:
    async def main(plant: Plant) -> None:
        source = Hands(plant)
        await source.came_up()
        await source.submit(block(0))
        await source.went_down("the cable is cut")
        await source.went_down("it still is")
        await source.came_up()

    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(main(plant))
        plant.wait_until_idle()
        plant.store.flush()
        with plant.store.read() as store:
            notes = {machine: [note.text for note in store.notes(machine).rows] for machine in ("m1", "m2")}
    assert sorted(notes["m1"]) == ["hands hands is down: the cable is cut", "hands hands is up again"]
    assert notes["m2"] == []


def test_run_never_returns_by_itself(tmp_path: Path) -> None:
    async def main(plant: Plant) -> None:
        source = Hands(plant)
        async with running(source.run()):
            await until(lambda: source.status.state == "ended")

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))


def test_tables_of_settings_become_sources(tmp_path: Path) -> None:
    assert list(SOURCES) == ["folder", "mqtt", "opcua", "replay"]
    with plant_of(tmp_path) as plant:
        mqtt = create_source(plant, {"kind": "mqtt", "name": "hall", "broker": {"host": "broker", "tls": {}}})
        assert (mqtt.status.name, mqtt.status.kind, mqtt.status.state) == ("hall", "mqtt", "connecting")
        opcua = {"node": "ns=2;s=a", "machine": "m1"}
        named = create_source(plant, {"kind": "opcua", "url": "opc.tcp://a", "variables": [opcua]})
        assert named.status.name == "opcua"
        wrong: list[tuple[dict[str, object], str]] = [
            ({}, "kind None"),
            ({"kind": "mqt"}, "did you mean 'mqtt'"),
            ({"kind": "mqtt", "topics": "a"}, "source mqtt: topics: no such setting; did you mean 'topic'"),
            ({"kind": "mqtt", "broker": {"password": "secret"}}, "broker.password: expected a table"),
            ({"kind": "mqtt", "broker": {"password": {"file": "x"}}}, "password without user"),
            ({"kind": "mqtt", "topic": "a/x{machine}"}, "a level of its own"),
            ({"kind": "mqtt", "topic": "a/#/b"}, "expected one such as"),
            ({"kind": "replay", "machine": "m1"}, "files: missing"),
            ({"kind": "replay", "machine": "a/b", "files": ["x"]}, "machine 'a/b'"),
            ({"kind": "replay", "machine": "m1", "files": []}, "expected at least one recording"),
            ({"kind": "replay", "machine": "m1", "files": ["x"], "speed": -1}, "speed -1"),
            ({"kind": "opcua", "url": "http://a", "variables": [opcua]}, "expected an address such as 'opc.tcp"),
            (
                {"kind": "opcua", "url": "opc.tcp://u:p@a", "variables": [opcua]},
                "user and password as separate settings",
            ),
            ({"kind": "opcua", "url": "opc.tcp://a", "variables": [opcua, opcua]}, "each node once"),
            ({"kind": "opcua", "url": "opc.tcp://a", "variables": [{**opcua, "channels": ["a"]}]}, "both for arrays"),
            ({"kind": "opcua", "url": "opc.tcp://a", "variables": [{**opcua, "node": "what"}]}, "variable 'what'"),
        ]
        for table, message in wrong:
            with pytest.raises(ConfigError, match=message):
                create_source(plant, table)
