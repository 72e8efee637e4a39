"""Small machines for tests: recordings, libraries and bundles that cost milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from cgsa import workflow
from cgsa.data.channel_levels import lowest_levels
from cgsa.data.recording import Recording
from cgsa.data.scenario import Condition, Scenario, SegmentSelection, Stage
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.nn.bundle import Calibration, Manifest, ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.ensemble import Ensemble, EnsembleConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.nn.orders import SpeedConfig
from cgsa.nn.spectra import FeatureConfig
from cgsa.offline.ensemble import extract_features, fit_ensemble
from cgsa.offline.known import fit_known
from cgsa.offline.own_start import fit_own_start
from cgsa.profile import Profile

RATE = 1000.0
CLASSES = ("health", "wear", "crack")
SPEC = WindowSpec(length=32, step=4)
ENSEMBLE_SPEC = WindowSpec(length=128, step=16)
"""Windows of the toy ensemble: long enough for several frames of each kind."""
ENSEMBLE = EnsembleConfig(
    (FeatureConfig("spectrum", 32), FeatureConfig("cross_spectrum", 16), FeatureConfig("envelope", 8, stretched=True))
)
CONDITION = Condition(name="torque", unit="Nm", minimum=0.0, maximum=10.0, tolerance=0.5)
SPEED = Condition(name="speed", unit="rpm", minimum=300.0, maximum=800.0, tolerance=5.0)

SCENARIO = Scenario(
    name="toy",
    title="A toy machine",
    machine="toy",
    healthy="health",
    faults=("wear", "crack"),
    channels=("a", "b"),
    sample_rate=RATE,
    conditions=(CONDITION,),
    offline=(SegmentSelection("T1", "low", ramp=(0, 10)), SegmentSelection("T2", "low", level=10, seconds=2)),
    online=(
        Stage("C1", "high", level=20, seconds=2),
        Stage("C2", "high", level=15, seconds=2, fault_from=0.5),
        Stage("C3", "low", level=5, seconds=2, fault_from=0.0),
    ),
)

BOTH = replace(
    SCENARIO,
    name="toy_2d",
    conditions=(CONDITION, SPEED),
    offline=(
        SegmentSelection("T1", "low", ramp={"torque": (0, 10)}),
        SegmentSelection("T2", "low", level={"torque": 10, "speed": 300}, seconds=2),
        SegmentSelection("T3", "high", ramp={"torque": (0, 15)}),
    ),
    online=(
        Stage("C1", "high", level={"torque": 20, "speed": 800}, seconds=2),
        Stage("C2", "high", level={"torque": 15}, seconds=2, fault_from=0.5),
        Stage("C3", "low", level={"speed": 300, "torque": 5}, seconds=2, fault_from=0.0),
    ),
)
"""The toy machine with a second condition, as :class:`TwoConditions` records it."""


def manifest(
    *, objective: str = "cal", seed: int = 0, conditions: tuple[Condition, ...] = SCENARIO.conditions
) -> Manifest:
    return Manifest(
        classes=CLASSES,
        channels=("a", "b"),
        units=("g", "g"),
        sample_rate=RATE,
        window=SPEC,
        conditions=conditions,
        network=NetworkConfig(hidden=(24, 12, 8), tap=8),
        scenario="toy",
        objective=objective,
        seed=seed,
    )


def known_space(network: DiagnosisNet) -> TrainingDistance:
    """A space whose distances are told by the inputs alone, about 1 for windows of unit deviation."""
    known = TrainingDistance(len(CLASSES), network.frontend.out_features, network.feature_width)
    known.inputs.usual.fill_(network.frontend.out_features)
    known.features.means.fill_(1e3)
    known.features.usual.fill_(network.feature_width * 1e6)
    return known


def bundle(seed: int = 0, *, conditions: tuple[Condition, ...] = SCENARIO.conditions) -> ModelBundle:
    """An untrained model with all that methods may need; its scores are spread so that some windows are confident."""
    about = manifest(seed=seed, conditions=conditions)
    about = replace(about, network=replace(about.network, reference=True), calibration=Calibration(3, 0.9, 1.5, 4.0))
    network = build_seeded(seed, lambda: DiagnosisNet(about.network, 2, SPEC.length, len(CLASSES)))
    config = DiscriminatorConfig(hidden=(8, 8))
    discriminator = build_seeded(seed, lambda: ConditionDiscriminator(8, config, len(conditions)))
    with torch.no_grad():
        for parameter in network.G.parameters():
            parameter.mul_(20.0)
    return ModelBundle(
        Manifest(**{**vars(about), "discriminator": config}),
        network.eval().requires_grad_(requires_grad=False),
        discriminator.eval().requires_grad_(requires_grad=False),
        known_space(network),
    )


def ensemble_manifest() -> Manifest:
    return replace(manifest(objective="ensemble"), window=ENSEMBLE_SPEC, ensemble=ENSEMBLE)


@cache
def ensemble_bundle() -> ModelBundle:
    """An ensemble fitted to the toy machine, with equal weights and without anything held out; do not change it."""
    return _fitted_ensemble(ENSEMBLE)


@cache
def start_bundle() -> ModelBundle:
    """The same with limits for the comparison with a machine's own healthy start; do not change it."""
    found, windows = ensemble_bundle(), ensemble_windows(step=64)
    ensemble = found.require_ensemble()
    features = extract_features(Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES)), windows)
    own_start = fit_own_start(ensemble, features, ENSEMBLE_SPEC.length / RATE, [])
    if own_start is None:
        raise RuntimeError("the toy recordings are too short to compare their halves")
    return replace(found, manifest=replace(found.manifest, own_start=own_start.config), own_start=own_start)


@cache
def speed_bundle() -> ModelBundle:
    """The same with members in orders: the torque of the toy machine stands for its speed."""
    found = _fitted_ensemble(replace(ENSEMBLE, speed=SpeedConfig(0, 5.0)))
    ensemble = found.require_ensemble()
    ensemble.speed_pool.fill_(1 / ensemble.member_count)
    return found


def _fitted_ensemble(config: EnsembleConfig) -> ModelBundle:
    levels = lowest_levels((signal.numpy() for signal in ensemble_windows().signals()), ENSEMBLE_SPEC.length)
    windows = ensemble_windows(step=64)
    ensemble = Ensemble(config, 2, ENSEMBLE_SPEC, len(CLASSES))
    features = extract_features(ensemble, windows)
    fit_ensemble(ensemble, features, [])
    known = fit_known(ensemble, windows, features)
    calibration = Calibration(3, 0.9, 1.0, known.limit)
    about = replace(
        ensemble_manifest(), ensemble=config, calibration=calibration, known=known.config, lowest_levels=levels
    )
    return ModelBundle(about, ensemble.eval(), None, known.check)


HEALTHY_PROFILE = Profile.load("healthy_only", {"ensemble": {"seconds": 0.25}})
"""Short windows, since the recordings of the toy machine are short."""


@cache
def healthy_bundle() -> ModelBundle:
    """A model of the healthy toy machine, as ``cgsa train --healthy-only`` trains it; do not change it."""
    windows = workflow.training_windows(SCENARIO, HEALTHY_PROFILE, ToyLibrary())
    [trained] = workflow.train(SCENARIO, HEALTHY_PROFILE, windows)
    return trained


def torque_run(levels: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Hold each level for three seconds with one-second ramps between them, plus sensor noise."""
    ends = np.cumsum([[1, 3]] * len(levels))
    times = np.concatenate([[0], ends])
    values = np.concatenate([[0], np.repeat(levels, 2)])
    time = np.arange(round(times[-1] * RATE)) / RATE
    return np.asarray(np.interp(time, times, values) + 0.05 * rng.standard_normal(len(time)))


@dataclass
class ToyLibrary:
    """A machine whose classes differ in the frequency of a line that grows with torque."""

    seed: int = 0
    numbers: tuple[int, ...] = (1, 2)

    def specimens(self) -> Sequence[int]:
        return self.numbers

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        return self.numbers

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        rng = np.random.default_rng([self.seed, CLASSES.index(state), len(run), specimen])
        torque = torque_run((10, 5) if run == "low" else (20, 15), rng)
        time = np.arange(len(torque)) / RATE
        line = np.sin(2 * np.pi * (60 + 60 * CLASSES.index(state)) * time) * (1 + 0.02 * torque)
        signal = np.stack([line, 0.5 * line]) + 0.3 * rng.standard_normal((2, len(time)))
        return Recording(
            signal=signal.astype(np.float32),
            sample_rate=RATE,
            channels=("a", "b"),
            units=("g", "g"),
            conditions={"torque": torque.astype(np.float32)},
            label=state,
            source=f"toy/{specimen}/{state}/{run}",
        )


class TwoConditions(ToyLibrary):
    """The same machine with its speed: 300 rpm in the low run, 800 rpm in the high one."""

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        found = super().get(state, run, severity=severity, specimen=specimen)
        speed = np.full(found.samples, 300 if run == "low" else 800, np.float32)
        return replace(found, conditions={**found.conditions, "speed": speed})


def training_windows(step: int = 8) -> Windows:
    return Windows(SCENARIO.training_segments(ToyLibrary()), WindowSpec(SPEC.length, step), conditions=("torque",))


def ensemble_windows(step: int = ENSEMBLE_SPEC.step) -> Windows:
    segments = SCENARIO.training_segments(ToyLibrary())
    return Windows(segments, WindowSpec(ENSEMBLE_SPEC.length, step), conditions=("torque",))


def training_windows_of_both(step: int = 8) -> Windows:
    segments = BOTH.training_segments(TwoConditions())
    return Windows(segments, WindowSpec(SPEC.length, step), conditions=BOTH.condition_names)


def stream_windows(fault: str = "wear") -> Windows:
    return Windows(SCENARIO.stream_segments(ToyLibrary(), fault), SPEC)


def noise_recording(samples: int = 200, *, seed: int = 0, source: str = "noise", rate: float = RATE) -> Recording:
    rng = np.random.default_rng(seed)
    return Recording(
        signal=rng.standard_normal((2, samples)).astype(np.float32),
        sample_rate=rate,
        channels=("a", "b"),
        units=("g", "g"),
        conditions={"torque": rng.uniform(0, 10, samples).astype(np.float32)},
        source=source,
    )


def segment(recording: Recording, label: int = 0, stage: int = 0) -> Segment:
    return Segment(recording, label, stage)
