"""A machine that is switched off and on again: what is diagnosed, raised, learnt and counted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.events import NO_DATA, OFF, AlarmChange, Diagnosis, Note
from cgsa.live.alarms import AlarmConfig
from cgsa.live.intake.quality import QualityConfig, QualityGate
from cgsa.live.segments import JournalRecord
from cgsa.live.standstill import MACHINE_OFF, StandstillConfig, StandstillDetector, window_deviations
from cgsa.live.watch import BLOCK, Watch, WatchConfig
from cgsa.nn.bundle import ModelBundle
from tests.live.stream import BEGUN, MACHINE, blocks, records, signal
from tests.machines import RATE, SPEC, bundle, manifest

QUICK = StandstillConfig(off_seconds=0.2, on_seconds=0.3)
ABOUT = replace(manifest(), lowest_levels=(1.0, 2.0))
HOP = SPEC.step / RATE


@cache
def model() -> ModelBundle:
    found = bundle()
    levels = tuple(float(level) for level in signal().std(axis=1))
    return replace(found, manifest=replace(found.manifest, lowest_levels=levels))


def watch(**changes: object) -> Watch:
    alarms = AlarmConfig(on_delay=0.2, off_delay=0.5, no_data_delay=1.0)
    config = WatchConfig(method="cgsa", batch_size=32, standstill=QUICK, alarms=alarms)
    return Watch(MACHINE, model(), replace(config, **changes), model="toy")  # type: ignore[arg-type]


def day(*parts: tuple[float, float]) -> np.ndarray:
    """A machine in seconds at a share of its level each."""
    found = np.concatenate([share * signal(seconds) for seconds, share in parts], axis=1)
    return np.ascontiguousarray(found.astype(np.float32))


def run(one: Watch, samples: np.ndarray) -> list[object]:
    return [event for record in records(blocks(samples)) for event in one.apply(record).events]


def diagnoses(events: list[object]) -> list[Diagnosis]:
    return [event for event in events if isinstance(event, Diagnosis)]


def test_a_machine_that_is_switched_off_is_off_until_it_runs_again() -> None:
    one = watch()
    found = diagnoses(run(one, day((2.0, 1.0), (2.0, 0.05), (2.0, 1.0))))
    states = [diagnosis.state for diagnosis in found]
    first, last = states.index(OFF), len(states) - states[::-1].index(OFF) - 1
    assert set(states[first : last + 1]) == {OFF}
    assert found[first].begin == pytest.approx(BEGUN + 2.0, abs=0.2)
    assert found[last].end == pytest.approx(BEGUN + 4.3, abs=0.3)
    assert all(diagnosis.verdict == OFF and diagnosis.probabilities == {} for diagnosis in found[first : last + 1])
    operation = one.operation
    assert operation is not None
    assert (operation.state, one.counts.flagged) == ("running", 0)
    assert operation.run_seconds == pytest.approx(3.7, abs=0.2)
    assert one.counts.still == pytest.approx(2.3 / HOP, abs=0.1 / HOP)


def test_standstill_neither_raises_nor_clears_nor_teaches() -> None:
    one = watch()
    run(one, day((2.0, 1.0)))
    before, learnt = one.alarms.state(), one.counts.learnt
    weights = {name: tensor for name, tensor in one.state()[0].items() if name.startswith("method")}
    sent = blocks(day((2.0, 1.0), (6.0, 0.02)))[20:]
    events = [event for record in records(sent) for event in one.apply(record).events]
    still = [event for event in events if isinstance(event, Diagnosis) and event.state == OFF]
    assert len(still) > 30
    after_stop = [event for event in events if isinstance(event, AlarmChange) and event.time > BEGUN + 2.3]
    assert after_stop == []
    assert one.counts.learnt - learnt <= 32, "only the batch in which the machine stops may teach"
    assert before.keys() == one.alarms.state().keys()
    assert weights.keys() <= one.state()[0].keys()


def test_starts_and_stops_are_noted() -> None:
    events = run(watch(), day((2.0, 1.0), (2.0, 0.05), (2.0, 1.0)))
    notes = [event for event in events if isinstance(event, Note) and event.topic == "operation"]
    assert [note.details["state"] for note in notes] == ["off", "running"]


def test_a_watch_resumed_at_standstill_goes_on_with_the_same_bits() -> None:
    sent = blocks(day((2.0, 1.0), (2.0, 0.05), (2.0, 1.0)))
    whole, first, second = watch(), watch(), watch()
    expected = [event for record in records(sent) for event in whole.apply(record).events]
    before = [event for record in records(sent[:30]) for event in first.apply(record).events]
    second.restore(*first.state())
    after = [
        event
        for number, block in enumerate(sent[30:], 30)
        for event in second.apply(JournalRecord(number, BLOCK, block.to_bytes())).events
    ]
    assert before + after == expected


def test_a_state_without_standstill_loads() -> None:
    """States of the previous release have neither its tensors nor the newer fields."""
    one = watch()
    run(one, day((2.0, 1.0)))
    tensors, rest = one.state()
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("standstill")}
    rest = {name: value for name, value in rest.items() if name not in {"last_refused", "measured_from"}}
    resumed = watch()
    resumed.restore(tensors, rest)
    assert resumed.operation is not None
    assert resumed.operation.run_seconds == 0.0
    assert resumed.counts == one.counts


def test_an_alarm_about_missing_data_is_cleared_by_a_machine_at_rest() -> None:
    one = watch()
    rest = day((0.1, 1.0), (4.0, 0.05))
    silent = rest.copy()
    silent[:, 200:1800] = np.nan
    changes = [event.change for event in run(one, silent) if isinstance(event, AlarmChange)]
    assert changes == ["opened", "cleared"]
    case = one.alarms.case
    assert case is not None
    assert case.faults == (NO_DATA,)


def test_without_known_levels_nothing_is_off() -> None:
    one = Watch(MACHINE, bundle(), WatchConfig(method="cgsa", batch_size=32))
    found = diagnoses(run(one, day((1.0, 1.0), (2.0, 0.01))))
    assert one.operation is None
    assert OFF not in {diagnosis.state for diagnosis in found}
    switched_off = watch(standstill=replace(QUICK, detect=False))
    assert OFF not in {diagnosis.state for diagnosis in diagnoses(run(switched_off, day((1.0, 1.0), (2.0, 0.01))))}


def test_a_flat_line_is_a_sensor_fault_while_the_machine_runs() -> None:
    broken = day((2.0, 1.0), (2.0, 0.0))
    found = diagnoses(run(watch(), broken))
    assert OFF not in {diagnosis.state for diagnosis in found}
    assert found[-1].state == NO_DATA


def test_a_flat_line_at_standstill_is_standstill() -> None:
    found = diagnoses(run(watch(), day((2.0, 1.0), (1.0, 0.05), (2.0, 0.0))))
    assert {diagnosis.state for diagnosis in found[-5:]} == {OFF}
    assert found[-1].flagged == {MACHINE_OFF: 32}


def literal(config: StandstillConfig, shares: list[float]) -> list[bool]:
    """The rule as written: quiet windows, and everything from a stop to a confirmed start, are at standstill."""
    off, run_of, still = False, 0, []
    for share in shares:
        quiet = share < config.off_below
        changing = quiet if not off else share >= config.on_above
        run_of = run_of + 1 if changing else 0
        wanted = config.on_seconds if off else config.off_seconds
        if changing and run_of * HOP >= wanted - 1e-9:
            off, run_of = not off, 0
        still.append(quiet or off)
    return still


@given(st.lists(st.sampled_from([0.1, 0.4, 0.9]), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_the_detector_follows_its_rule_in_batches_of_any_size(shares: list[float], off: int, on: int) -> None:
    config = StandstillConfig(off_seconds=(off - 0.5) * HOP, on_seconds=(on - 0.5) * HOP)
    detector = StandstillDetector(config, ABOUT)
    gate = QualityGate(QualityConfig(held_samples=999, clipped_samples=999), SPEC, 2)
    found: list[bool] = []
    for share in shares:
        wave = np.sqrt(2.0) * np.sin(2 * np.pi * np.arange(SPEC.length) / 8)
        samples = (share * np.stack([wave, 2 * wave])).astype(np.float32)
        found += detector.step(samples, gate.check(samples), np.array([len(found) * HOP])).tolist()
    assert found == literal(config, shares)


@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 40), st.integers(0, 50))
def test_deviations_are_those_of_each_window(seed: int, length: int, step: int, more: int) -> None:
    """A literal twin: one window after the other."""
    spec, rng = WindowSpec(length=length, step=step), np.random.default_rng(seed)
    samples = (rng.standard_normal((2, length + more)) * [[1.0], [1e-3]] + [[0.0], [1e3]]).astype(np.float32)
    samples[0, rng.integers(0, length + more)] = rng.choice([0.0, 1e30, np.nan, np.inf])
    found = window_deviations(samples, spec)
    assert found.shape == (2, spec.count(samples.shape[1]))
    for window in range(found.shape[1]):
        part = samples[:, window * step : window * step + length].astype(np.float64)
        with np.errstate(invalid="ignore"):
            expected = part.std(axis=1)
        assert np.allclose(found[:, window], expected, rtol=1e-6, atol=1e-12, equal_nan=True)


def test_an_old_state_of_the_detector_starts_afresh_and_a_wrong_one_is_refused() -> None:
    detector = StandstillDetector(QUICK, ABOUT)
    detector.off = True
    saved = detector.state_dict()
    detector.load_state_dict({})
    assert not detector.off
    detector.load_state_dict(saved)
    assert detector.off
    with pytest.raises(Exception, match="standstill"):
        detector.load_state_dict({"run": torch.zeros(2)})


@pytest.mark.parametrize(
    "settings", [{"off_below": 0.6}, {"off_below": 0.0}, {"off_seconds": -1.0}, {"on_seconds": float("inf")}]
)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        StandstillConfig(**settings)  # type: ignore[arg-type]
