"""How large is the ledger of a machine after a week? A week of windows through the store, by a clock that runs fast.

    python benchmarks/ledger_week.py MODEL RECORDING --days 7

A watch under the profile of the model diagnoses the recording once, as fast as it can. Its batches, with their true
windows, verdicts and evidence, then repeat with later times: each is written to a store whose clock is that of the
stream, and every ten minutes of stream the ledger is thinned and trimmed as a service does it. Two alarms per day keep
their surroundings. The script prints size, rows and memory for every day, and what the batches would take as they were
written. Diagnoses are written, too.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from cgsa.bench.tables import Table
from cgsa.data.readers import read_recording
from cgsa.events import AlarmChange, Case, Diagnosis
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.segments import JournalRecord
from cgsa.live.store import DAY, LedgerBudget, RowRetention, Store, StoredDiagnosis, pack_columns
from cgsa.live.store_maintenance import TRIM_SECONDS
from cgsa.live.watch import BLOCK, Watch
from cgsa.nn.bundle import ModelBundle

MACHINE, BEGUN, BLOCK_SECONDS = "rig", 1_700_000_000.0, 0.25
ALARMS_PER_DAY = 2
MEGABYTE = 1e6


class StreamClock:
    """The clock of the store: the time of the stream."""

    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> float:
        """Return the time of the stream."""
        return self.now


def diagnose(model: Path, recording: Path) -> tuple[list[tuple[Diagnosis, Columns]], float]:
    """Return the batches of a recording, and how many seconds it lasts."""
    bundle = ModelBundle.load(model)
    about = bundle.manifest
    samples = read_recording(recording).select(about.channels).signal
    watch = Watch(MACHINE, bundle, MachineConfig(MACHINE, model).watch_config(bundle))
    size = round(BLOCK_SECONDS * about.sample_rate)
    found: list[tuple[Diagnosis, Columns]] = []
    for number in range(samples.shape[1] // size):
        piece = np.ascontiguousarray(samples[:, number * size : (number + 1) * size])
        block = Block(MACHINE, number, BEGUN + number * BLOCK_SECONDS, about.sample_rate, about.channels, piece)
        result = watch.apply(JournalRecord(number, BLOCK, block.to_bytes()))
        found += zip([event for event in result.events if isinstance(event, Diagnosis)], result.ledger, strict=True)
    return found, samples.shape[1] // size * BLOCK_SECONDS


def week(batches: list[tuple[Diagnosis, Columns]], seconds: float, days: float) -> Iterator[tuple[Diagnosis, Columns]]:
    """Yield the batches again and again, each time with later times and numbers."""
    windows = sum(one.windows for one, _ in batches)
    for turn in itertools.count():
        for number, (event, rows) in enumerate(batches):
            later = turn * seconds
            if event.end + later >= BEGUN + days * DAY:
                return
            moved = {
                **rows,
                "time": np.asarray(rows["time"]) + later,
                "window": np.asarray(rows["window"]) + turn * windows,
            }
            yield (
                replace(event, batch=turn * len(batches) + number, begin=event.begin + later, end=event.end + later),
                moved,
            )


def alarm(number: int, moment: float) -> AlarmChange:
    case = Case(number, "raised", "high", "fault", ("fault",), opened=moment, changed=moment)
    return AlarmChange(MACHINE, moment, "opened", "fault", notify=True, case=case)


def row_of(store: Store, budget: LedgerBudget, day: int, written: int, begun: float) -> tuple[str, ...]:
    """Return the figures of a day, right after a thinning."""
    store.flush()
    store.thin(store.clock(), budget)
    with store.read() as snapshot:
        ledger, sizes = snapshot.ledger_bytes(MACHINE), snapshot.sizes()
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    files = sum(path.stat().st_size for path in store.files[0].parent.glob("store.sqlite*"))
    return (
        str(day),
        f"{written / MEGABYTE:,.0f}",
        f"{ledger / MEGABYTE:,.1f}",
        f"{sizes['ledger'].rows:,}",
        f"{sizes['diagnoses'].bytes / MEGABYTE:,.0f}",
        f"{files / MEGABYTE:,.0f}",
        f"{resident / MEGABYTE:,.0f}",
        f"{time.monotonic() - begun:,.0f}",
    )


def windows_per_second(batches: list[tuple[Diagnosis, Columns]], seconds: float) -> float:
    return sum(event.windows for event, _ in batches) / seconds


def columns_of(batches: list[tuple[Diagnosis, Columns]]) -> str:
    labels = [name for name, column in batches[0][1].items() if isinstance(column, LabelColumn)]
    return f"{len(batches[0][1])} columns, of which {len(labels)} of labels"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--whole-hours", type=float, default=LedgerBudget.whole_hours)
    parser.add_argument("--sampled-hours", type=float, default=LedgerBudget.sampled_hours)
    options = parser.parse_args()
    batches, seconds = diagnose(options.model, options.recording)
    print(
        f"{len(batches)} batches in {seconds:g} s, {windows_per_second(batches, seconds):.0f} windows per second, ",
        end="",
    )
    print(columns_of(batches), flush=True)
    packed = [sum(map(len, pack_columns(columns))) for _, columns in batches]
    budget = LedgerBudget(whole_hours=options.whole_hours, sampled_hours=options.sampled_hours)
    clock, rows, begun = StreamClock(), [], time.monotonic()
    written = alarms = 0
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite", clock=clock) as store:
        thinned, day, longest = BEGUN, 1, 0.0
        for event, columns in week(batches, seconds, options.days):
            clock.now = event.end
            store.add_diagnosis(StoredDiagnosis(MACHINE, event))
            store.add_ledger(MACHINE, event.batch, columns)
            written += packed[event.batch % len(packed)]
            if (event.end - BEGUN) / DAY * ALARMS_PER_DAY >= alarms + 0.5:
                alarms += 1
                store.add(alarms, 0, alarm(alarms, event.end))
            if event.end - thinned >= TRIM_SECONDS:
                thinned, before = event.end, time.monotonic()
                store.flush()
                store.thin(event.end, budget)
                store.trim(event.end, RowRetention())
                longest = max(longest, time.monotonic() - before)
            if event.end - BEGUN >= day * DAY:
                rows.append(row_of(store, budget, day, written, begun))
                print(rows[-1], flush=True)
                day += 1
        rows.append(row_of(store, budget, day, written, begun))
    names = ("day", "written, MB", "ledger, MB", "rows", "diagnoses, MB", "files, MB", "memory, MB", "s")
    print(f"\nlongest thinning and trimming: {longest:.2f} s\n")
    print(Table("ledger_week", names, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
