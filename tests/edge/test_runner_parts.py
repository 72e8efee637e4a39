"""Parts of the runner against the parts of cgsa that they stand for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.decide.decision import DecisionMaker
from cgsa.edge.runner.decision import StateChains
from cgsa.edge.runner.package import EdgePackage
from cgsa.edge.runner.quality import SignalQuality
from cgsa.edge.runner.windowing import BatchCutter
from cgsa.live.intake.quality import QualityConfig, QualityGate
from cgsa.live.intake.windower import Windower
from tests.edge.exported import export, settings_of
from tests.machines import CLASSES, RATE, SPEC, bundle

VALUES = st.sampled_from([0.0, 0.5, -0.5, 1.0, 2.5, -3.0, 200.0, np.nan, np.inf, -np.inf])


@cache
def package() -> EdgePackage:
    return export(bundle(), settings_of(bundle(), commission_seconds=0.1), Path(mkdtemp()) / "edge")


@given(arrays(np.float32, st.tuples(st.just(2), st.integers(SPEC.length, 150)), elements=VALUES), st.integers(0, 5))
def test_windows_get_the_quality_of_the_gate(samples: np.ndarray, seed: int) -> None:
    gate = QualityGate(QualityConfig(), SPEC, 2, scale=([0.0, 0.0], [1.0, 1.0]))
    quality = SignalQuality(package())
    noise = np.random.default_rng(seed).standard_normal(samples.shape).astype(np.float32)
    for signal in (samples, np.where(samples == 0, noise, samples), np.clip(noise, -1, 1), noise):
        count = SPEC.count(signal.shape[1])
        used = signal[:, : (count - 1) * SPEC.step + SPEC.length]
        np.testing.assert_array_equal(quality.check(used), gate.check(used).codes)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(0, 11))
def test_batches_are_those_of_the_windower(blocks: list[int], end: int) -> None:
    size = package().description["batch_size"]
    cutter, windower = BatchCutter(package()), Windower(SPEC, size, 2, RATE)
    for number, block in enumerate(blocks):
        samples = np.random.default_rng(number).standard_normal((2, 20 * block)).astype(np.float32)
        pairs = [(cutter.add(samples), windower.add(samples))]
        if number == end:
            pairs.append((cutter.end(), windower.restart(windower.now)))
        for found, expected in pairs:
            assert [one.begin for one in found] == [one.time for one in expected]
            assert all(np.array_equal(one.samples, other.samples) for one, other in zip(found, expected, strict=True))


@given(st.integers(0, 100), st.integers(1, 40), st.booleans())
def test_decisions_are_those_of_the_decision_maker(seed: int, windows: int, known: bool) -> None:  # noqa: FBT001
    rng = np.random.default_rng(seed)
    maker, chains = DecisionMaker(settings_of(bundle()).decide, bundle().manifest), StateChains(package())
    for _ in range(3):
        scores = rng.standard_normal((windows, len(CLASSES))) * 8 + 3 * rng.standard_normal(len(CLASSES))
        given_ = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        distance = rng.uniform(0, 9, windows) if known else None
        ready = rng.random(windows) < rng.choice([0.0, 0.7, 1.0])
        evidence = {"ready": torch.from_numpy(ready)}
        change = rng.lognormal(0, 2, windows) if seed % 2 else None
        if change is not None:
            evidence["change"] = torch.from_numpy(change)
        if distance is not None:
            evidence["distance"] = torch.from_numpy(distance)
        expected = maker.step(torch.from_numpy(given_), evidence)
        found = chains.add(given_, distance, ready, change)
        alarm = int(expected.alarm_state[-1])
        assert found.state == maker.states[int(expected.state[-1])]
        assert found.alarm == (maker.states[alarm] if alarm else None)
        assert found.window_probabilities == pytest.approx(expected.window_probabilities.numpy())
