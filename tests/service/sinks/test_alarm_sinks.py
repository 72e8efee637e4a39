from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from cgsa.errors import ConfigError
from cgsa.live.commands import Command
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.worker import WorkerConfig
from cgsa.service.sinks import SINKS, AlarmSinks
from tests.machines import bundle
from tests.service.sinks.notifications import Receiver, raise_alarm
from tests.service.sources.counterparts import running, until

NO_STATE = WorkerConfig(checkpoint_seconds=1e9)
"""States are saved at the end alone: whoever is killed before has everything to do again."""


def test_alarms_reach_all_sinks(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")

    async def main(plant: Plant, sinks: AlarmSinks, calls: Receiver, log: Receiver) -> None:
        async with running(sinks.run()):
            await asyncio.to_thread(raise_alarm, plant)
            await asyncio.to_thread(lambda: plant.worker("m1").command(Command("acknowledge", "ann")).result(10))
            await until(lambda: len(calls.got) == 1 and len(log.got) == 2)
            await until(lambda: all(link.status.state == "up" for link in sinks.deliveries))
        posted = [json.loads(body) for _, body in log.got]
        assert [(each["change"], each["who"], each["notify"]) for each in posted] == [
            ("opened", None, True),
            ("acknowledged", "ann", False),
        ]
        assert json.loads(calls.got[0][1]) == posted[0]
        statuses = [delivery.status for delivery in sinks.deliveries]
        assert [(status.name, status.kind, status.state) for status in statuses] == [
            ("webhook", "webhook", "up"),
            ("log", "webhook", "up"),
        ]

    with Receiver() as calls, Receiver() as log, Plant(tmp_path / "plant", threads=1) as plant:
        configs: list[dict[str, object]] = [
            {"kind": "webhook", "url": calls.url},
            {"kind": "webhook", "name": "log", "url": log.url, "everything": True},
        ]
        with AlarmSinks(plant, plant.folder / "outbox", configs) as sinks:
            plant.add(MachineConfig("m1", tmp_path / "model", profile="paper"))
            asyncio.run(main(plant, sinks, calls, log))


def test_a_kill_neither_loses_nor_repeats_a_notification(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")

    async def serve(sinks: AlarmSinks, receiver: Receiver, number: int) -> None:
        async with running(sinks.run()):
            await until(lambda: len(receiver.got) == number)
            # Long enough for one that were too many.
            await asyncio.sleep(0.3)
        assert len(receiver.got) == number

    with Receiver() as receiver:
        configs = [{"kind": "webhook", "url": receiver.url}]
        machine = MachineConfig("m1", tmp_path / "model", profile="paper")
        killed = Plant(tmp_path / "plant", threads=1, config=NO_STATE)
        with killed, AlarmSinks(killed, killed.folder / "outbox", configs) as sinks:
            killed.add(machine)
            raise_alarm(killed)
            # As a kill would leave it: in the outbox, not sent, and no state saved since.
            shutil.copytree(killed.folder, tmp_path / "unsent")
            asyncio.run(serve(sinks, receiver, 1))
            shutil.copytree(killed.folder, tmp_path / "sent")
        for folder, number in (("sent", 1), ("unsent", 2)):
            with (
                Plant(tmp_path / folder, threads=1) as plant,
                AlarmSinks(plant, plant.folder / "outbox", configs) as sinks,
            ):
                worker = plant.add(machine)
                plant.wait_until_idle()
                assert worker.watch.counts.blocks == 1
                assert sinks.outbox.end == 1
                asyncio.run(serve(sinks, receiver, number))
    # The same call from two lives of one history: by its id, a receiver knows it.
    assert len(set(receiver.ids)) == 1


def test_without_sinks_nothing_is_kept(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1) as plant, AlarmSinks(plant, plant.folder / "outbox", []) as sinks:
        plant.add(MachineConfig("m1", tmp_path / "model", profile="paper"))
        raise_alarm(plant)
        assert (sinks.outbox.end, sinks.deliveries) == (0, ())


def test_tables_that_describe_no_sink_are_refused(tmp_path: Path) -> None:
    assert list(SINKS) == ["email", "mqtt", "webhook"]
    webhook: dict[str, object] = {"kind": "webhook", "url": "http://a"}
    wrong: list[tuple[list[dict[str, object]], str]] = [
        ([webhook, webhook], "sink webhook: there are two of this name"),
        ([{"kind": "web"}], "unknown sink 'web'"),
        ([{"kind": "webhook"}], "sink webhook: url: missing"),
        ([{**webhook, "secret": "x"}], "secret: expected a table"),
    ]
    with Plant(tmp_path / "plant", threads=1) as plant:
        for configs, message in wrong:
            with pytest.raises(ConfigError, match=message):
                AlarmSinks(plant, tmp_path / "outbox", configs)
