"""A machine that is measured for seconds every hour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.errors import ConfigError
from cgsa.events import AlarmChange, Diagnosis, Note
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intermittent import IntermittentConfig
from cgsa.live.segments import JournalRecord
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, COMMAND, Watch, WatchConfig
from cgsa.live.worker import Worker
from tests.live.stream import BEGUN, MACHINE, signal
from tests.live.workers import NO_CHECKPOINTS, diagnoses, work
from tests.machines import RATE, bundle, speed_bundle

HOURLY = IntermittentConfig(every=3600.0, settle=0.05)
CONFIG = WatchConfig(method="cgsa", batch_size=64, intermittent=HOURLY)
WINDOWS = 118
"""Of a burst of half a second: windows of 32 samples every 4."""


def burst(number: int, *, first: int | None = None, seconds: float = 0.5, state: str = "health") -> list[Block]:
    """The blocks of one measurement; numbers go on unless the sender begins anew."""
    samples = signal(seconds, state)
    count = samples.shape[1] // 100
    begin = number * count if first is None else first
    return [
        Block(
            MACHINE,
            begin + n,
            BEGUN + 3600.0 * number + n * 100 / RATE,
            RATE,
            ("a", "b"),
            np.ascontiguousarray(samples[:, n * 100 : (n + 1) * 100]),
        )
        for n in range(count)
    ]


def run(watch: Watch, *bursts: list[Block], end: bool = True) -> list[object]:
    found: list[object] = []
    ended = JournalRecord(0, COMMAND, Command("end_recording", "service").to_bytes())
    for blocks in bursts:
        for block in blocks:
            found += watch.apply(JournalRecord(block.sequence, BLOCK, block.to_bytes())).events
        found += watch.apply(ended).events if end else ()
    return found


@pytest.mark.parametrize("first", [None, 0])
@pytest.mark.parametrize("end", [True, False])
def test_pauses_are_neither_gaps_nor_faults_and_no_window_spans_them(first: int | None, *, end: bool) -> None:
    watch = Watch(MACHINE, bundle(), CONFIG)
    found = run(watch, *(burst(number, first=first) for number in range(3)), end=end)
    assert (watch.counts.gaps, watch.counts.refused_blocks) == (0, 0)
    assert [event for event in found if isinstance(event, Note | AlarmChange)] == []
    batches = [event for event in found if isinstance(event, Diagnosis)]
    assert all(event.end - event.begin <= 0.5 for event in batches)
    if end:
        assert watch.counts.windows == 3 * WINDOWS


def test_silence_is_expected_until_the_next_measurement_is_overdue() -> None:
    watch = Watch(MACHINE, bundle(), CONFIG)
    run(watch, burst(0))
    assert watch.measurements is not None
    assert (watch.measurements.begin, watch.measurements.next) == (BEGUN, BEGUN + 3600.0)
    for seconds, raised in ((3000.0, False), (3661.0, True)):
        silence = Command("silence", "service", details={"seconds": seconds})
        events = watch.apply(JournalRecord(0, COMMAND, silence.to_bytes())).events
        assert any(isinstance(event, AlarmChange) for event in events) == raised


def test_a_fault_is_found_across_measurements() -> None:
    """Each measurement is shorter than the time that a fault must last."""
    alarms = replace(CONFIG.alarms, on_delay=0.8)
    watch = Watch(MACHINE, bundle(), replace(CONFIG, alarms=alarms))
    found = run(watch, *(burst(number, state="wear") for number in range(4)))
    faulty = [event for event in found if isinstance(event, Diagnosis) and event.alarm is not None]
    raised = [event for event in found if isinstance(event, AlarmChange)]
    assert bool(raised) == (sum(event.end - event.begin for event in faulty) >= 0.8)


def test_blocks_that_are_really_missing_are_a_gap() -> None:
    watch = Watch(MACHINE, bundle(), CONFIG)
    second = burst(1)
    run(watch, burst(0), second[:2] + second[4:], end=False)
    assert watch.counts.gaps == 1


def test_a_watch_resumed_between_measurements_goes_on_with_the_same_bits() -> None:
    whole, first, second = (Watch(MACHINE, bundle(), CONFIG) for _ in range(3))
    expected = run(whole, burst(0), burst(1))
    before = run(first, burst(0))
    second.restore(*first.state())
    assert before + run(second, burst(1)) == expected


def test_a_healthy_start_is_collected_over_measurements() -> None:
    config = replace(CONFIG, method="commissioning", settings={"seconds": 0.9, "healthy_start": True}, batch_size=8)
    watch = Watch(MACHINE, speed_bundle(), config)
    states = []
    for number in range(3):
        run(watch, burst(number))
        assert watch.commissioning is not None
        assert watch.commissioning == watch.signal.commissioning
        states.append((watch.commissioning.state, watch.commissioning.cause))
    assert states[0] == ("waiting", None)
    assert states[-1][0] == "done"


def test_a_worker_completes_a_measurement_once_it_has_settled(tmp_path: Path, store: Store) -> None:
    worker = Worker(Watch(MACHINE, bundle(), CONFIG), tmp_path / "m", store, config=NO_CHECKPOINTS)
    for block in burst(0):
        worker.submit(block)
    work(worker)
    assert worker.watch.counts.windows == 64
    worker._silence.used_time -= 1.0
    worker.tick()
    worker.tick()
    work(worker)
    assert worker.watch.counts.windows == WINDOWS
    assert sum(one.windows for one in diagnoses(store)) == WINDOWS
    status = worker.status()
    assert status.measurements is not None
    assert status.measurements.every == 3600.0
    worker.tick()
    assert not worker.has_work, "a measurement ends once"
    worker.close()


@pytest.mark.parametrize("settings", [{"every": 0.0}, {"every": 1e9}, {"every": 60.0, "settle": 0.0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=list(settings)[-1]):
        IntermittentConfig(**settings)
