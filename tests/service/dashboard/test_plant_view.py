from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.live.alarms import AlarmConfig, AlarmManager
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import Snippet
from cgsa.live.worker import WorkerConfig
from cgsa.service.dashboard.plant_view import AVERAGED_BLOCKS, PlantView
from tests.live.stream import blocks, signal
from tests.machines import bundle

CONFIG = WorkerConfig(checkpoint_seconds=0.05, shed_above=60.0)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1, config=CONFIG) as running:
        for name in ("one", "two"):
            running.add(
                MachineConfig(name, tmp_path / "model", profile="paper", settings={"stream": {"batch_size": 64}})
            )
        yield running


def feed(plant: Plant, seconds: float = 3.0) -> None:
    for block in blocks(signal(seconds)):
        plant.submit(replace(block, machine="one"))
    plant.wait_until_idle()
    plant.store.flush()


def test_activity_before_the_subscription_is_read_from_the_store(plant: Plant) -> None:
    feed(plant)
    late = asyncio.run(PlantView(plant).summary("one"))
    assert late.activity.state == late.verdict
    assert late.activity.history


def test_events_after_the_subscription_need_no_store(plant: Plant) -> None:
    view = PlantView(plant)
    unsubscribe = view.subscribe()
    before = asyncio.run(view.summary("one"))
    assert (before.display_status, before.activity.history) == ("waiting", ())
    feed(plant)
    unsubscribe()
    history = view._activity("one").snapshot().history
    assert history == asyncio.run(PlantView(plant).summary("one")).activity.history


def test_the_list_has_all_machines_in_the_order_of_their_rank(plant: Plant) -> None:
    feed(plant)
    found = asyncio.run(PlantView(plant).fleet())
    assert {one.machine for one in found} == {"one", "two"}
    assert [one.rank for one in found] == sorted(one.rank for one in found)


def test_reads_the_timeline_the_windows_and_the_signal(plant: Plant) -> None:
    view = PlantView(plant)

    async def check() -> None:
        timeline = await view.timeline("one", 300.0)
        assert timeline.diagnoses[-1] == plant.worker("one").status().diagnosis
        evidence = await view.evidence("one")
        assert evidence.windows > 0
        assert evidence.rows[0].window == plant.worker("one").watch.counts.windows - 1
        found = await view.signal("one")
        assert found.block is plant.worker("one").watch.latest
        assert found.spectrum is not None
        silent = await view.signal("two")
        assert (silent.block, silent.spectrum) == (None, None)
        assert (await view.evidence("two")).windows == 0

    feed(plant)
    asyncio.run(check())


def test_spectra_of_the_last_blocks_are_averaged(plant: Plant) -> None:
    view, worker = PlantView(plant), plant.worker("one")
    for number, block in enumerate(blocks(signal(3.0))[: AVERAGED_BLOCKS + 3]):
        worker.watch.latest = block
        assert view._signal(worker).averaged == min(number + 1, AVERAGED_BLOCKS)
        assert view._signal(worker).averaged == min(number + 1, AVERAGED_BLOCKS)
    worker.watch.latest = replace(block, samples=block.samples[:, :16])
    assert view._signal(worker).averaged == 1


def test_missing_samples_around_an_alarm_are_shown_as_zero(plant: Plant) -> None:
    samples = np.stack([np.sin(np.arange(2000) / 5), np.full(2000, np.nan)]).astype(np.float32)
    (raised,) = AlarmManager(AlarmConfig(on_delay=0), "one").observe(0.0, 1.0, "crack")
    plant.store.add(0, 0, raised)
    plant.store.add(1, 0, Snippet("one", 1000.0, 1, 1000.0, ("x", "y"), samples))
    plant.store.flush()
    (shown,) = asyncio.run(PlantView(plant).alarm_signals("one"))
    assert shown.case == 1
    assert shown.block is not None
    assert shown.spectrum is not None
    assert (shown.block.time, shown.block.seconds) == (1000.0, 2.0)
    assert np.array_equal(shown.block.samples[0], samples[0])
    assert not shown.block.samples[1].any()
    strongest = shown.spectrum.frequency[shown.spectrum.amplitude[0].argmax()]
    assert strongest == pytest.approx(1000 / 5 / (2 * np.pi), abs=2)
    assert asyncio.run(PlantView(plant).alarm_signals("two")) == ()


def test_states_can_be_listed_and_compared(plant: Plant) -> None:
    view, worker = PlantView(plant), plant.worker("one")
    feed(plant)
    worker.save()
    (first, *_) = worker.states()[-1:]

    async def check() -> None:
        rows = await view.states("one")
        assert rows[0].number == first.number
        assert await view.compare_states("one", first.number, first.number) == ()

    asyncio.run(check())


def test_an_unknown_machine_is_refused(plant: Plant) -> None:
    with pytest.raises(DataError, match="no machine 'three'"):
        asyncio.run(PlantView(plant).summary("three"))
