"""The runner gives the verdicts, alarms and commissioning of a watch with torch, batch by batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.recording import FloatArray
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.nn.bundle import ModelBundle
from tests.edge.exported import differences, export, run_on_edge, settings_of, watched
from tests.machines import bundle, ensemble_bundle, healthy_bundle, speed_bundle, start_bundle
from tests.online.models import trained_bundle
from tests.starts import FOOLING, steady


@cache
def _models() -> dict[str, tuple[ModelBundle, DiagnosisConfig]]:
    return {
        "ensemble": (ensemble_bundle(), settings_of(ensemble_bundle(), seconds=0.3)),
        "ensemble with a start": (start_bundle(), settings_of(start_bundle(), seconds=0.3)),
        "frozen ensemble with a start": (start_bundle(), settings_of(start_bundle(), "source")),
        "ensemble with a speed": (speed_bundle(), settings_of(speed_bundle(), seconds=0.3)),
        "frozen ensemble": (ensemble_bundle(), settings_of(ensemble_bundle(), "source")),
        "healthy only": (healthy_bundle(), settings_of(healthy_bundle(), seconds=0.3)),
        "steady healthy only": (healthy_bundle(), settings_of(healthy_bundle(), seconds=0.3, steady=True)),
        "network": (trained_bundle(), settings_of(trained_bundle(), commission_seconds=0.1)),
        "untrained network": (bundle(), settings_of(bundle(), commission_seconds=0.1)),
        "frozen network": (trained_bundle(), settings_of(trained_bundle(), "source")),
    }


@cache
def _signals() -> dict[str, tuple[list[FloatArray], bool]]:
    """Recordings, and whether the machine is known to be healthy at first."""
    health, wear, crack = (steady(state) for state in ("health", "wear", "crack"))
    spiked = health.copy()
    spiked[1, 700:730] = np.nan
    spiked[0, 1500] = np.inf
    spiked[0, 2000:2100] = spiked[0, 2000]
    return {
        "fault after health": ([health[:, :1500], wear[:, :1500]], False),
        "three recordings": ([health[:, :1111], crack[:, :20], wear[:, :999]], True),
        "sensor faults": ([spiked], False),
        "other machine": ([steady("health", strange=2.0)[:, :1500], crack[:, :1000]], True),
    }


def _check(
    model: ModelBundle, config: DiagnosisConfig, folder: Path, cases: list[tuple[list[FloatArray], bool]]
) -> None:
    package = export(model, config, folder)
    for signals, healthy in cases:
        expected = watched(model, config, signals, healthy=healthy)
        found = run_on_edge(package, signals, healthy=healthy)
        assert len(found) == len(expected) > 0
        assert [one for pair in zip(expected, found, strict=True) for one in differences(*pair)] == []


@pytest.mark.parametrize("name", list(_models()))
def test_the_runner_gives_the_events_of_a_watch(name: str, tmp_path: Path) -> None:
    _check(*_models()[name], tmp_path / "edge", list(_signals().values()))


@pytest.mark.parametrize("name", ["ensemble", "ensemble with a start", "healthy only"])
def test_an_unsuitable_start_waits_or_asks_as_in_a_watch(name: str, tmp_path: Path) -> None:
    cases = [([signal[:, :1500]], False) for signal, _ in FOOLING.values()]
    _check(*_models()[name], tmp_path / "edge", cases)
