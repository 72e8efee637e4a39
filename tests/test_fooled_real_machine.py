"""Every way to fool the commissioning of a real machine ends in a wait or a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.signal import resample_poly

from cgsa.data.recording import Recording
from cgsa.data.scenario import Library, Scenario
from cgsa.events import Diagnosis
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import diagnose, train, training_windows
from tests.data.test_real_scenarios import real_library

Signal = npt.NDArray[np.float64]

PROFILE = Profile.load("recommended")
SECONDS = 8.0


@dataclass(frozen=True, eq=False)
class RealMachine:
    """A trained model, and recordings of the machine that were not trained on."""

    bundle: ModelBundle
    recording: Recording
    """Healthy, at a trained speed."""
    elsewhere: Recording
    """Healthy, at a speed absent from training."""
    faulty: Recording
    other: Recording
    """Another machine."""

    def long(self, signal: Signal) -> Signal:
        """Return a signal that is repeated until it lasts long enough."""
        return np.resize(np.tile(signal, (1, 9)), (len(signal), round(SECONDS * self.recording.sample_rate)))

    def events(self, signal: Signal) -> list[Diagnosis]:
        samples = np.ascontiguousarray(signal, dtype=np.float32)
        recording = replace(self.recording, signal=samples, conditions={}, mean=None)
        diagnoser = SignalDiagnoser(self.bundle, DiagnosisConfig.from_profile(PROFILE))
        return [batch.event for batch in diagnose(diagnoser, [recording])]


def _cut(scenario: Scenario, library: Library, state: str, stage: int) -> Recording:
    cut = scenario.online[stage]
    return scenario.cut(library, state, cut, run=cut.runs[0], specimen=1)


@pytest.fixture(scope="module")
def machine() -> RealMachine:
    scenario, foreign = Scenario.load("bldc_iq"), Scenario.load("kat_units")
    library, others = real_library(scenario), real_library(foreign)
    [bundle] = train(scenario, PROFILE, training_windows(scenario, PROFILE, library))
    return RealMachine(
        bundle,
        _cut(scenario, library, scenario.healthy, 2),
        _cut(scenario, library, scenario.healthy, 0),
        _cut(scenario, library, scenario.faults[0], 2),
        _cut(foreign, others, foreign.healthy, 0),
    )


def _genuine(machine: RealMachine) -> Signal:
    return machine.long(machine.recording.signal.astype(np.float64))


def _noise(machine: RealMachine, level: float) -> Signal:
    genuine = _genuine(machine)
    return np.asarray(level * genuine.std() * np.random.default_rng(0).standard_normal(genuine.shape))


def _clipped(machine: RealMachine) -> Signal:
    genuine = _genuine(machine)
    return np.clip(genuine, *np.quantile(genuine, (0.025, 0.975)))


def _other(machine: RealMachine) -> Signal:
    """Return another machine at the sample rate and level of this one."""
    ratio = round(machine.other.sample_rate / machine.recording.sample_rate)
    other = machine.long(resample_poly(machine.other.signal.astype(np.float64), 1, ratio, axis=1))
    return np.asarray(other * (_genuine(machine).std() / other.std()))


def _run_up(machine: RealMachine) -> Signal:
    """Return a machine that starts: its level rises from a twentieth, so that it stands still for more than half."""
    genuine = np.tile(_genuine(machine), 3)
    return np.asarray(genuine * np.geomspace(0.05, 1.5, genuine.shape[1]))


def _at_speed(machine: RealMachine, up: int, down: int) -> Signal:
    """Return the machine as if it ran at down / up times its speed."""
    return machine.long(resample_poly(machine.recording.signal.astype(np.float64), up, down, axis=1))


STARTS: dict[str, tuple[Callable[[RealMachine], Signal], Sequence[str]]] = {
    "standstill": (lambda machine: _noise(machine, 0.001), ["waiting: standstill"]),
    "white noise": (lambda machine: _noise(machine, 1.0), ["question: unlike every machine", "waiting: far from all"]),
    "ten times the level": (lambda machine: 10 * _genuine(machine), ["waiting: the quality gate rejects"]),
    "a tenth of the level": (lambda machine: 0.1 * _genuine(machine), ["waiting: standstill"]),
    "clipped": (_clipped, ["waiting: the quality gate rejects"]),
    "another machine": (_other, ["question: unlike every machine", "waiting: far from all"]),
    "run-up": (_run_up, ["question: unlike every machine", "waiting: far from all", "waiting: the start was not"]),
    "far too fast": (lambda machine: _at_speed(machine, 2, 5), ["question: unlike every", "waiting: far from all"]),
    "far too slow": (lambda machine: _at_speed(machine, 5, 2), ["question: unlike every", "waiting: far from all"]),
    "fault": (
        lambda machine: machine.long(machine.faulty.signal.astype(np.float64)),
        ["question: looks like unbalance"],
    ),
}
"""Signals, and how the text of their last status may begin."""


@pytest.mark.parametrize("name", STARTS)
def test_what_is_no_healthy_start_of_the_machine_waits_or_asks(machine: RealMachine, name: str) -> None:
    make, expected = STARTS[name]
    events = machine.events(make(machine))
    assert len(events) > 0
    for event in events:
        assert event.commissioning is not None
        assert event.commissioning.state in {"waiting", "question"}
        assert not event.commissioning.reference
    last = events[-1]
    assert last.commissioning is not None
    assert last.commissioning.text.startswith(tuple(expected))
    # Nor is it called healthy without a question about the sensor, or as if training had covered it. (The machine that
    # runs up is healthy.)
    if last.state == machine.bundle.manifest.classes[0] and name != "run-up":
        assert last.sensor_question is not None
        assert last.trust is not None
        assert last.trust.coverage == 0


def test_a_healthy_start_needs_no_answer_at_trained_and_untrained_speeds(machine: RealMachine) -> None:
    for recording in (machine.recording, machine.elsewhere):
        last = machine.events(machine.long(recording.signal.astype(np.float64)))[-1]
        assert last.commissioning is not None
        assert last.commissioning.text == "commissioned: compared with the healthy start of this machine"
        assert (last.state, last.sensor_question) == (machine.bundle.manifest.classes[0], None)
