"""A machine that is switched off, as a watch sees it and as the runner does."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.data.recording import FloatArray
from cgsa.edge.runner.operation import OperationObserver
from cgsa.edge.runner.package import EdgePackage
from cgsa.edge.runner.windowing import deviations_by_window, window_views
from cgsa.live.intake.quality import WINDOW_REASONS, QualityFlags
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.live.standstill import StandstillConfig, StandstillDetector
from cgsa.nn.bundle import ModelBundle
from tests.edge.exported import Events, differences, export, run_on_edge, settings_of, watched
from tests.machines import ENSEMBLE_SPEC, RATE, SPEC, bundle, ensemble_bundle, healthy_bundle, start_bundle
from tests.online.models import trained_bundle
from tests.starts import steady

QUICK = StandstillConfig(off_seconds=0.2, on_seconds=0.3)


def with_levels(model: ModelBundle) -> ModelBundle:
    return replace(model, manifest=replace(model.manifest, lowest_levels=(0.7, 0.4)))


@cache
def models() -> dict[str, tuple[ModelBundle, DiagnosisConfig]]:
    network = with_levels(trained_bundle())
    return {
        "ensemble with a start": (start_bundle(), settings_of(start_bundle(), seconds=0.3)),
        "healthy only": (healthy_bundle(), settings_of(healthy_bundle(), seconds=0.3)),
        "network": (network, settings_of(network, commission_seconds=0.1)),
    }


@cache
def signals() -> dict[str, list[FloatArray]]:
    health, wear = steady("health"), steady("wear")
    stuck = 0.02 * health[:, 1000:2300]
    stuck[0, 400:700] = stuck[0, 400]
    return {
        "off and on again": [
            np.concatenate([health[:, :1000], stuck, wear[:, :1200]], axis=1),
            np.concatenate([0.02 * wear[:, :300], wear[:, 300:900]], axis=1),
        ],
        "off at first": [np.concatenate([0.01 * health[:, :900], health[:, 900:]], axis=1)],
    }


def both(name: str, signal: str, folder: Path, standstill: StandstillConfig) -> tuple[Events, Events]:
    model, config = models()[name]
    config, recordings = replace(config, standstill=standstill, batch_size=8), signals()[signal]
    package = export(model, config, folder / "edge")
    return watched(model, config, recordings, healthy=True), run_on_edge(package, recordings, healthy=True)


@pytest.mark.parametrize("signal", list(signals()))
@pytest.mark.parametrize("name", list(models()))
def test_standstill_on_the_edge_is_that_of_a_watch(name: str, signal: str, tmp_path: Path) -> None:
    expected, found = both(name, signal, tmp_path, QUICK)
    assert [one for pair in zip(expected, found, strict=True) for one in differences(*pair)] == []
    assert {one["verdict"] for one in found} > {"off"}
    assert {one["state"] for one in found} > {"off"}
    assert {one["operation"]["state"] for one in found} == {"off", "running"}
    assert sum(one["flagged"].get("machine off", 0) for one in found) > 0


def test_a_short_standstill_is_left_out_and_the_machine_is_not_off(tmp_path: Path) -> None:
    slow = StandstillConfig(off_seconds=5.0)
    expected, found = both("ensemble with a start", "off and on again", tmp_path, slow)
    assert [one for pair in zip(expected, found, strict=True) for one in differences(*pair)] == []
    assert {one["operation"]["state"] for one in found} == {"running"}
    assert sum(one["flagged"].get("machine off", 0) for one in found) > 0


def test_standstill_that_is_not_to_be_detected_is_diagnosed(tmp_path: Path) -> None:
    expected, found = both("ensemble with a start", "off and on again", tmp_path, StandstillConfig(detect=False))
    assert [one for pair in zip(expected, found, strict=True) for one in differences(*pair)] == []
    assert {one["operation"] for one in found} == {None}
    assert "off" not in {one["state"] for one in found}


@cache
def package() -> EdgePackage:
    config = replace(settings_of(ensemble_bundle()), standstill=QUICK)
    return export(ensemble_bundle(), config, Path(mkdtemp()) / "edge")


@given(
    st.lists(
        st.tuples(st.integers(1, 25), st.sampled_from([0.0, 0.02, 0.3, 0.6, 1.0, np.nan])), min_size=1, max_size=8
    ),
    st.integers(0, 99),
)
def test_the_observer_follows_a_machine_as_the_detector_does(parts: list[tuple[int, float]], seed: int) -> None:
    rng, step = np.random.default_rng(seed), ENSEMBLE_SPEC.step
    detector, observer = StandstillDetector(QUICK, ensemble_bundle().manifest), OperationObserver(package())
    begin, loud = 0.0, 3 * np.max(ensemble_bundle().manifest.lowest_levels or 1.0)
    for windows, share in parts:
        samples = (share * loud * rng.standard_normal((2, (windows - 1) * step + ENSEMBLE_SPEC.length))).astype(
            np.float32
        )
        codes = rng.choice(len(WINDOW_REASONS), (2, windows), p=[0.9, *[0.1 / 6] * 6]).astype(np.int8)
        times = begin + np.arange(windows) * step / RATE
        expected = detector.step(samples, QualityFlags(codes), times)
        assert observer.check(samples, codes.max(axis=0), begin).tolist() == expected.tolist()
        operation = detector.operation
        assert operation is not None
        assert observer.status() == pytest.approx(vars(operation))
        begin += windows * step / RATE


@given(
    arrays(np.float32, (2, 96), elements=st.floats(-1e3, 1e3, width=32) | st.just(np.float32(np.nan))),
    st.sampled_from([1, 4, 6, 7, 32]),
)
def test_deviations_are_those_of_single_windows(samples: FloatArray, step: int) -> None:
    windows = window_views(samples.astype(np.float64), SPEC.length, step)
    expected = np.array([[window.std() for window in channel] for channel in windows])
    np.testing.assert_allclose(deviations_by_window(samples, SPEC.length, step), expected, rtol=1e-6, atol=1e-6)


def test_a_model_that_knows_no_levels_says_nothing_of_the_operation(tmp_path: Path) -> None:
    observer = OperationObserver(export(bundle(), settings_of(bundle()), tmp_path / "edge"))
    assert not observer.check(np.zeros((2, SPEC.length), np.float32), np.zeros(1, np.int8), 0.0).any()
    assert observer.status() is None
