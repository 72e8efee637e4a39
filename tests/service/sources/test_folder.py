from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers.parquet import write_parquet
from cgsa.errors import ConfigError
from cgsa.live.intake.block import Block
from cgsa.live.plant import Plant
from cgsa.live.segments import JournalRecord, read_journal
from cgsa.live.watch import BLOCK
from cgsa.service.sources import recording_blocks
from cgsa.service.sources.folder import FolderConfig, FolderSource
from tests.machines import RATE
from tests.service.sources import folder_kills
from tests.service.sources.counterparts import plant_of, running, until
from tests.service.sources.recordings import START, drop, noise


def config(inbox: Path, **settings: object) -> FolderConfig:
    quick = FolderConfig(
        folder=str(inbox), machine="m1", complete="renamed", poll_seconds=0.01, block_seconds=0.1, start="modified"
    )
    return replace(quick, **settings)  # type: ignore[arg-type]


def watching(plant: Plant, settings: FolderConfig, then: Callable[[FolderSource], Awaitable[None]]) -> FolderSource:
    """Run a source until ``then`` has returned."""

    async def main() -> FolderSource:
        source = FolderSource(plant, settings)
        async with running(source.run()):
            await then(source)
        return source

    source = asyncio.run(main())
    plant.wait_until_idle()
    return source


def files(count: int, refused: int = 0) -> Callable[[FolderSource], Awaitable[None]]:
    async def wait(source: FolderSource) -> None:
        def counts() -> tuple[int, int]:
            return source.status.counts["files"], source.status.counts["refused_files"]

        await until(lambda: counts() == (count, refused))
        await asyncio.sleep(0.05)
        assert counts() == (count, refused), source.status

    return wait


def journaled(plant: Plant, machine: str = "m1") -> list[Block]:
    records = read_journal(plant.folder / "machines" / machine / "journal")
    return [Block.from_bytes(one.payload) for one in records if isinstance(one, JournalRecord) and one.kind == BLOCK]


def test_files_become_blocks_in_the_order_of_their_times(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    drop(inbox, "z.parquet", seed=1, modified=START)
    drop(inbox, "a.parquet", seed=2, modified=START + 60)
    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox), files(2))
        blocks, status = journaled(plant), plant.worker("m1").status()
    assert [block.sequence for block in blocks] == list(range(10))
    assert blocks[0].time == pytest.approx(START - 0.5)
    assert blocks[5].time == pytest.approx(START + 59.5)
    assert np.array_equal(np.concatenate([one.samples for one in blocks[:5]], axis=1), noise(500, 1).signal)
    assert (status.counts.refused_blocks, status.counts.gaps) == (0, 0)
    assert (inbox / "a.parquet").exists(), "files are kept by default"


def test_every_file_is_diagnosed_to_its_end_and_no_window_spans_two(tmp_path: Path) -> None:
    """Windows of 32 samples every 4: 500 samples have 118, and two files 236."""
    drop(tmp_path / "inbox", "1.parquet", modified=START)
    drop(tmp_path / "inbox", "2.parquet", modified=START + 3600)
    with plant_of(tmp_path) as plant:
        watching(plant, config(tmp_path / "inbox"), files(2))
        assert plant.worker("m1").status().counts.windows == 2 * 118


def test_a_file_is_taken_once_across_restarts(tmp_path: Path) -> None:
    drop(tmp_path / "inbox", "1.parquet", modified=START)
    with plant_of(tmp_path) as plant:
        watching(plant, config(tmp_path / "inbox"), files(1))
    drop(tmp_path / "inbox", "2.parquet", seed=2, modified=START + 60)
    with plant_of(tmp_path) as plant:
        watching(plant, config(tmp_path / "inbox"), files(1))
        assert [block.sequence for block in journaled(plant)] == list(range(10))


@pytest.mark.parametrize("blocks", [0, 3, 5])
def test_a_file_that_was_interrupted_is_completed_without_repetition(tmp_path: Path, blocks: int) -> None:
    """As after a kill: the first blocks are in the journal, and the rest is not."""
    drop(tmp_path / "inbox", "1.parquet", modified=START)

    class Killed(FolderSource):
        async def deliver(self, block: Block) -> None:
            if block.sequence == blocks:
                await asyncio.Event().wait()
            await super().deliver(block)

        async def _end_recording(self, worker: object) -> None:
            if self.status.counts["blocks"] == 5:
                await asyncio.Event().wait()

    async def main(plant: Plant) -> None:
        source = Killed(plant, config(tmp_path / "inbox"))
        async with running(source.run()):
            await until(lambda: source.status.counts["blocks"] == blocks)
            await asyncio.sleep(0.05)

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
    with plant_of(tmp_path) as plant:
        watching(plant, config(tmp_path / "inbox"), files(1))
        assert [block.sequence for block in journaled(plant)] == list(range(5))
        assert plant.worker("m1").status().counts.windows == 118


@pytest.mark.parametrize(
    ("processed", "place"), [("keep", "1.parquet"), ("move", "processed/1.parquet"), ("delete", None)]
)
def test_a_file_that_was_taken_is_kept_moved_or_deleted(tmp_path: Path, processed: str, place: str | None) -> None:
    inbox = tmp_path / "inbox"
    drop(inbox, "1.parquet", modified=START)
    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, processed=processed), files(1))
    assert [str(path.relative_to(inbox)) for path in inbox.rglob("*") if path.is_file()] == ([place] if place else [])


def test_a_service_killed_at_any_time_takes_every_sample_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.service.sources.folder_kills", str(tmp_path)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=settings)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    with plant_of(tmp_path) as plant:
        blocks = journaled(plant)
    samples = np.concatenate([block.samples for block in blocks], axis=1)
    expected = np.concatenate([noise(folder_kills.SAMPLES, seed).signal for seed in range(folder_kills.FILES)], axis=1)
    # The journal forgets what old states do not need.
    assert np.array_equal(samples, expected[:, expected.shape[1] - samples.shape[1] :])
    assert [block.sequence for block in blocks] == list(range(blocks[0].sequence, blocks[-1].sequence + 1))
    assert (counts["refused_blocks"], counts["gaps"], counts["blocks"]) == (0, 0, blocks[-1].sequence + 1)
    assert counts["windows"] == folder_kills.FILES * (1 + (folder_kills.SAMPLES - 32) // 4)


def test_a_name_is_used_again_once_its_file_is_gone(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"

    async def twice(source: FolderSource) -> None:
        for number in range(2):
            drop(tmp_path, "new.parquet", seed=number, modified=START + 60 * number).rename(inbox / "current.parquet")
            await files(number + 1)(source)

    inbox.mkdir()
    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, processed="move"), twice)
        assert len(journaled(plant)) == 10
    assert sorted(path.name for path in (inbox / "processed").iterdir()) == ["current-1.parquet", "current.parquet"]


@pytest.mark.parametrize("start", ["modified", "recording"])
def test_damaged_files_are_set_aside_with_the_reason(tmp_path: Path, start: str) -> None:
    inbox = tmp_path / "inbox"
    whole = drop(inbox, "cut.parquet", modified=START).read_bytes()
    (inbox / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (inbox / "empty.csv").touch()
    (inbox / "notes.txt").write_text("the logger was moved")
    write_parquet(noise(500, rate=500.0), inbox / "rate.parquet")
    drop(inbox, "good.parquet", modified=START)
    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, start=start), files(1, refused=4))
        assert len(journaled(plant)) == 5
    reasons = {path.name: path.read_text() for path in (inbox / "refused").glob("*.reason.txt")}
    assert set(reasons) == {f"{name}.reason.txt" for name in ("cut.parquet", "empty.csv", "notes.txt", "rate.parquet")}
    assert "expected 1000 Hz" in reasons["rate.parquet.reason.txt"]
    assert "is empty" in reasons["empty.csv.reason.txt"]
    assert [path.name for path in inbox.iterdir() if path.is_file()] == ["good.parquet"]


def test_a_damaged_file_stays_where_the_folder_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "bad.csv").write_text("?")

    def denied(*_: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(FolderSource, "_move", denied)
    with plant_of(tmp_path) as plant:
        source = watching(plant, config(inbox), files(0, refused=1))
        assert "bad.csv is refused" in source.status.note
        watching(plant, config(inbox), files(0, refused=0))


def test_a_recording_before_what_is_known_or_in_the_future_is_refused(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    drop(inbox, "1.parquet", modified=START)

    async def late(source: FolderSource) -> None:
        await files(1)(source)
        drop(tmp_path, "new", modified=START - 60).rename(inbox / "2.parquet")
        drop(tmp_path, "new", modified=9e9).rename(inbox / "3.parquet")
        await files(1, refused=2)(source)

    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox), late)
    assert "before the end of what is known" in (inbox / "refused" / "2.parquet.reason.txt").read_text()
    assert "in the future" in (inbox / "refused" / "3.parquet.reason.txt").read_text()


def test_names_tell_machine_and_time(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    for machine in ("m1", "m2"):
        drop(inbox, f"{machine}/burst_20231114-221320.parquet")
    drop(inbox, "m3/burst_20231114-221320.parquet")
    drop(inbox, "m1/other.parquet")
    settings = config(inbox, machine=None, files="{machine}/burst_{time:%Y%m%d-%H%M%S}.parquet", start=None)
    with plant_of(tmp_path, "m1", "m2") as plant:
        source = watching(plant, settings, files(2, refused=1))
        assert [journaled(plant, machine)[0].time for machine in ("m1", "m2")] == [START, START]
        assert "no machine 'm3' is monitored" in source.status.note


def test_the_time_of_a_recording_is_its_own(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    rows = [f"2023-11-14 23:13:{20 + n / RATE:09.6f};{n % 7},5;{n % 5},25" for n in range(500)]
    (inbox / "day.csv").write_text("\n".join(["time;a;b", ";g;m/s²", *rows]) + "\n")
    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, start=None, timezone="Europe/Berlin"), files(1))
        first = journaled(plant)[0]
    assert first.time == pytest.approx(START)
    assert first.samples[1, 1] == pytest.approx(1.25 / 9.80665), "units are converted to those of the model"


def test_blocks_longer_than_a_journal_holds_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_blocks, "MAX_SAMPLES", 200)
    drop(tmp_path / "inbox", "1.parquet", modified=START)
    with plant_of(tmp_path) as plant:
        watching(plant, config(tmp_path / "inbox", block_seconds=3600.0), files(1))
        assert [block.count for block in journaled(plant)] == [200, 200, 100]


def test_a_stopped_machine_does_not_hold_up_the_files_of_the_others(tmp_path: Path) -> None:
    for machine in ("m1", "m2"):
        for number in range(3):
            drop(tmp_path / "inbox" / machine, f"{number}.parquet", 500, number, START + number)
    settings = config(tmp_path / "inbox", machine=None, files="{machine}/*")

    async def wait(source: FolderSource) -> None:
        await until(lambda: source.status.counts["files"] == 3)
        assert journaled(plant, "m1") == []
        assert "m1 is not monitored at present" in source.status.note
        stopped.undo()
        await until(lambda: source.status.counts["files"] == 6)
        assert source.status.counts["disconnects"] == 0

    with plant_of(tmp_path, "m1", "m2") as plant, pytest.MonkeyPatch.context() as stopped:
        stopped.setattr(plant.worker("m1"), "_failure", "for a while")
        watching(plant, settings, wait)
        assert [each.sequence for each in journaled(plant, "m1")] == list(range(15))
        assert plant.worker("m1").watch.counts.refused_blocks == 0


def test_a_growing_file_waits_until_it_has_settled(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    content = drop(tmp_path, "whole").read_bytes()

    async def grow(source: FolderSource) -> None:
        with (inbox / "1.parquet").open("wb") as file:
            for begin in range(0, len(content), len(content) // 4):
                file.write(content[begin : begin + len(content) // 4])
                file.flush()
                await asyncio.sleep(0.1)
        await files(1)(source)

    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, complete="settled", settle_seconds=0.3), grow)


def test_a_file_waits_for_its_marker(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    drop(inbox, "1.parquet")

    async def mark(source: FolderSource) -> None:
        await files(0)(source)
        (inbox / "1.parquet.done").touch()
        await files(1)(source)

    with plant_of(tmp_path) as plant:
        watching(plant, config(inbox, complete="marker", processed="delete"), mark)
    assert list(inbox.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": ""}, "folder: missing"),
        ({"machine": None, "files": "*.csv"}, "expected the machine in one of them"),
        ({"machine": "m1", "files": "{machine}/*"}, "expected the machine in one of them"),
        ({"start": "name"}, "expected a pattern with {time:FORMAT}"),
        ({"files": "../*"}, "a path below the folder"),
        ({"files": "{time:%Q}"}, "%Q; expected"),
        ({"poll_seconds": 0.0}, "more than 0"),
        ({"timezone": "Mars/Olympus"}, "expected one such as 'Europe/Berlin'"),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **settings)
