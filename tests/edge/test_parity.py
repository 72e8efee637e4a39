from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.edge import model_graphs
from cgsa.edge.classifiers import member_graph
from cgsa.edge.graph import GraphValue
from cgsa.edge.package import export_package
from cgsa.edge.parity import LIMIT, LOUDNESS, synthetic_signals
from cgsa.errors import BundleError, DataError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.ensemble import Ensemble
from tests.edge.exported import settings_of
from tests.machines import bundle, ensemble_bundle, healthy_bundle, noise_recording, start_bundle

MODELS: dict[str, Callable[[], ModelBundle]] = {
    "ensemble": ensemble_bundle,
    "ensemble with a start": start_bundle,
    "healthy only": healthy_bundle,
    "network": bundle,
}


@pytest.mark.parametrize("name", list(MODELS))
def test_torch_and_the_export_agree_far_within_the_limit(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    report = export_package(model, settings_of(model), tmp_path / "edge").parity
    assert max(report.probability, report.distance) < 1e-9
    assert not report.recorded
    assert report.windows == 16 * len(list(synthetic_signals(model)))


def test_a_graph_that_differs_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slightly_wrong(features: Sequence[GraphValue], ensemble: Ensemble) -> GraphValue:
        return member_graph(features, ensemble) * (1 + 100 * LIMIT)

    monkeypatch.setattr(model_graphs, "member_graph", slightly_wrong)
    with pytest.raises(BundleError, match=r"differs from torch by .* in a probability .* expected at most 1e-05"):
        export_package(ensemble_bundle(), settings_of(ensemble_bundle()), tmp_path / "edge")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_gives_no_number_is_refused(tmp_path: Path) -> None:
    model = bundle()
    last = model.network.G[-1]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        last.bias.fill_(torch.nan)
    with pytest.raises(BundleError, match="differs from torch by inf in a probability"):
        export_package(model, settings_of(model), tmp_path / "edge")


def test_a_signal_to_check_must_hold_a_window(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a signal of 20 samples to check; expected at least 32, one window"):
        export_package(bundle(), settings_of(bundle()), tmp_path / "edge", [noise_recording(20).signal])
    with pytest.raises(DataError, match="no signal to check the export with"):
        export_package(bundle(), settings_of(bundle()), tmp_path / "edge", [])


def test_synthetic_signals_range_from_quiet_to_loud() -> None:
    levels = [float(np.std(signal)) for signal in synthetic_signals(ensemble_bundle())]
    assert max(levels) / min(levels) > 0.5 * LOUDNESS[-1] / LOUDNESS[0]
