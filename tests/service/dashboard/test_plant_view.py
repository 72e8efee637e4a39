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
from cgsa.service.dashboard.plant_view import AVERAGED, PlantView
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


def test_a_machine_that_spoke_before_anybody_looked_is_known(plant: Plant) -> None:
    feed(plant)
    late = asyncio.run(PlantView(plant).summary("one"))
    assert late.heard.state == late.verdict
    assert late.heard.beats


def test_what_is_heard_needs_no_store(plant: Plant) -> None:
    board = PlantView(plant)
    stop = board.listen()
    before = asyncio.run(board.summary("one"))
    assert (before.mood, before.heard.beats) == ("waiting", ())
    feed(plant)
    stop()
    heard = board._pulse("one").heard()
    assert heard.beats == asyncio.run(PlantView(plant).summary("one")).heard.beats


def test_the_list_holds_all_machines_in_the_order_of_concern(plant: Plant) -> None:
    feed(plant)
    found = asyncio.run(PlantView(plant).fleet())
    assert {one.machine for one in found} == {"one", "two"}
    assert [one.concern for one in found] == sorted(one.concern for one in found)


def test_tells_the_course_the_windows_and_the_signal(plant: Plant) -> None:
    board = PlantView(plant)

    async def look() -> None:
        course = await board.course("one", 300.0)
        assert course.told[-1] == plant.worker("one").status().diagnosis
        evidence = await board.evidence("one")
        assert evidence.windows > 0
        assert evidence.rows[0].window == plant.worker("one").watch.counts.windows - 1
        found = await board.signal("one")
        assert found.block is plant.worker("one").watch.latest
        assert found.spectrum is not None
        silent = await board.signal("two")
        assert (silent.block, silent.spectrum) == (None, None)
        assert (await board.evidence("two")).windows == 0

    feed(plant)
    asyncio.run(look())


def test_spectra_of_the_last_blocks_are_averaged(plant: Plant) -> None:
    board, worker = PlantView(plant), plant.worker("one")
    for number, block in enumerate(blocks(signal(3.0))[: AVERAGED + 3]):
        worker.watch.latest = block
        assert board._signal(worker).averaged == min(number + 1, AVERAGED)
        assert board._signal(worker).averaged == min(number + 1, AVERAGED)
    worker.watch.latest = replace(block, samples=block.samples[:, :16])
    assert board._signal(worker).averaged == 1


def test_the_signal_around_an_alarm_is_kept_and_shown_with_its_holes(plant: Plant) -> None:
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
    board, worker = PlantView(plant), plant.worker("one")
    feed(plant)
    worker.save()
    (first, *_) = worker.states()[-1:]

    async def look() -> None:
        rows = await board.states("one")
        assert rows[0].number == first.number
        assert await board.compare("one", first.number, first.number) == ()

    asyncio.run(look())


def test_a_machine_that_is_not_watched_is_refused(plant: Plant) -> None:
    with pytest.raises(DataError, match="no machine 'three'"):
        asyncio.run(PlantView(plant).summary("three"))
