from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.live.plant import Plant
from cgsa.service.links.link import supervise
from cgsa.service.sources.replay import ReplayConfig, ReplaySource
from tests.machines import RATE, noise_recording
from tests.service.sources.counterparts import journaled, plant_of, until

START = 5_000_000.0


def files(folder: Path, *lengths: int) -> tuple[tuple[str, ...], list[Recording]]:
    recordings = [noise_recording(length, seed=length) for length in lengths]
    paths = [folder / f"{n}.parquet" for n in range(len(lengths))]
    for recording, path in zip(recordings, paths, strict=True):
        write_parquet(recording, path)
    return tuple(map(str, paths)), recordings


class Time:
    """A clock that sleeping turns on."""

    def __init__(self, begin: float = START) -> None:
        self.now = begin
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def replayed(plant: Plant, config: ReplayConfig, time: Time) -> ReplaySource:
    source = ReplaySource(plant, config, sleep=time.sleep, clock=time, stopwatch=time)
    asyncio.run(supervise(source, sleep=time.sleep))
    assert source.status.state == "ended"
    return source


def test_files_form_one_stream_in_real_time(tmp_path: Path) -> None:
    paths, recordings = files(tmp_path, 250, 130)
    time = Time()
    with plant_of(tmp_path) as plant:
        source = replayed(plant, ReplayConfig("m1", paths), time)
        plant.wait_until_idle()
        blocks = journaled(plant)
        assert plant.worker("m1").status().counts.gaps == 0
    assert [block.count for block in blocks] == [100, 100, 50, 100, 30]
    assert [block.sequence for block in blocks] == list(range(5))
    assert [block.time for block in blocks] == pytest.approx([START + n for n in (0, 0.1, 0.2, 0.25, 0.35)], abs=1e-6)
    joined = np.concatenate([block.samples for block in blocks], axis=1)
    assert np.array_equal(joined, np.concatenate([recording.signal for recording in recordings], axis=1))
    assert time.slept == pytest.approx([0.1, 0.1, 0.05, 0.1, 0.03], abs=1e-6)
    assert source.status.counts["blocks"] == 5


def test_speed_length_channels_and_begin_are_chosen(tmp_path: Path) -> None:
    wide = noise_recording(120)
    wide = replace(
        wide, signal=np.vstack([wide.signal, wide.signal[:1]]), channels=("b", "x", "a"), units=("g", "g", "g")
    )
    write_parquet(wide, tmp_path / "wide.parquet")
    time = Time()
    config = ReplayConfig(
        "m1", (str(tmp_path / "wide.parquet"),), channels=("a", "b"), speed=4.0, block_seconds=0.04, start=77.0
    )
    with plant_of(tmp_path) as plant:
        replayed(plant, config, time)
        blocks = journaled(plant)
    assert [(block.channels, block.count) for block in blocks] == [(("a", "b"), 40)] * 3
    assert np.array_equal(blocks[0].samples[1], wide.signal[0, :40])
    assert [block.time for block in blocks] == pytest.approx([77.0, 77.04, 77.08])
    assert time.slept == pytest.approx([0.01] * 3, abs=1e-6)


def test_a_long_delay_is_not_caught_up_with(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 1500)

    class Nap(Time):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.slept) == 2:
                self.now += 3600

    time = Nap()
    with plant_of(tmp_path) as plant:
        replayed(plant, ReplayConfig("m1", paths), time)
    # A second is made up for at once, and from then on the pace is as before.
    assert time.slept[:2] == pytest.approx([0.1, 0.1], abs=1e-6)
    assert time.slept[2:12] == pytest.approx([0.0] * 10, abs=1e-6)
    assert time.slept[12:] == pytest.approx([0.1] * 3, abs=1e-6)


def test_full_speed_skips_no_adaptation(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 20_000)
    with plant_of(tmp_path) as plant:
        source = ReplaySource(plant, ReplayConfig("m1", paths, speed=0))
        asyncio.run(supervise(source))
        plant.wait_until_idle()
        counts = plant.worker("m1").status().counts
        assert (counts.blocks, counts.shed, counts.gaps) == (200, 0, 0)
        assert source.status.counts["overloads"] == 0


def test_rounds_and_restarts_continue_numbers_and_times(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 100, 50)

    async def rounds(plant: Plant) -> None:
        source = ReplaySource(plant, ReplayConfig("m1", paths, speed=0, loop=True, start=START))
        task = asyncio.create_task(supervise(source))
        await until(lambda: source.status.counts["blocks"] >= 6)
        task.cancel()

    with plant_of(tmp_path) as plant:
        asyncio.run(rounds(plant))
        plant.wait_until_idle()
        blocks = journaled(plant)
        assert [block.sequence for block in blocks] == list(range(len(blocks)))
        assert [block.time for block in blocks][:5] == pytest.approx([START + n for n in (0, 0.1, 0.15, 0.25, 0.3)])
        before = plant.worker("m1").watch.now
    with plant_of(tmp_path) as plant:
        asyncio.run(rounds(plant))
        plant.wait_until_idle()
        again = journaled(plant)[len(blocks) :]
        # Its count begins anew, its time does not go back, and so it is believed.
        assert again[0].sequence == 0
        assert again[0].time == pytest.approx(before)
        assert plant.worker("m1").status().counts.refused_blocks == 0


def test_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 100, 100)
    late = Path(paths[1])
    late.rename(tmp_path / "aside")

    async def main(plant: Plant) -> None:
        source = ReplaySource(plant, ReplayConfig("m1", paths, speed=0))
        task = asyncio.create_task(supervise(source))
        await until(lambda: source.status.state == "down")
        assert "1.parquet: no such file" in source.status.why
        (tmp_path / "aside").rename(late)
        await task
        assert source.status.counts["blocks"] == 2

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        assert [block.sequence for block in journaled(plant)] == [0, 1]
        assert journaled(plant)[0].sample_rate == RATE


def test_a_file_without_samples_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 0)
    time = Time()

    async def main(plant: Plant) -> None:
        source = ReplaySource(plant, ReplayConfig("m1", paths, loop=True), sleep=time.sleep, clock=time)
        task = asyncio.create_task(supervise(source))
        await until(lambda: source.status.state == "down")
        assert "sample" in source.status.why
        task.cancel()

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
