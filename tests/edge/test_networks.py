from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.edge.package import export_package
from cgsa.errors import BundleError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from tests.edge.exported import settings_of
from tests.machines import CLASSES, SPEC, manifest, noise_recording


def network(frontend: str, *, dropout: float = 0.0) -> ModelBundle:
    """A network without calibration and reference, as profile ``paper`` trains it."""
    config = NetworkConfig(frontend, hidden=(24, 8), tap=8, dropout=dropout)
    model = build_seeded(0, lambda: DiagnosisNet(config, 2, SPEC.length, len(CLASSES)))
    windows = np.lib.stride_tricks.sliding_window_view(noise_recording(300).signal, SPEC.length, axis=1)
    signal = torch.from_numpy(noise_recording(300).signal)
    model.frontend.fit(signal, torch.from_numpy(windows.transpose(1, 0, 2).copy()))
    return ModelBundle(replace(manifest(), network=config), model.eval().requires_grad_(requires_grad=False), None)


@pytest.mark.parametrize("frontend", ["raw", "spectrum", "bands", "magnitudes"])
def test_front_ends_are_those_of_torch(frontend: str, tmp_path: Path) -> None:
    model = network(frontend, dropout=0.2)
    report = export_package(
        model, settings_of(model, "source"), tmp_path / "edge", [noise_recording(300, seed=1).signal]
    )
    assert report.parity.probability < 1e-12
    assert report.parity.recorded
    assert report.parity.windows == 16


def test_a_front_end_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OwnFrontend(RawFrontend):
        pass

    model = network("raw")
    monkeypatch.setattr(model.network, "frontend", OwnFrontend(2, SPEC.length))
    with pytest.raises(BundleError, match="front-end OwnFrontend cannot be exported; expected raw, spectrum"):
        export_package(model, settings_of(model, "source"), tmp_path / "edge")
