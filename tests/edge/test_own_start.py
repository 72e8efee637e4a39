"""The comparison with the machine's own healthy start, as a watch makes it and as the runner does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.data.recording import FloatArray
from cgsa.edge import model_graphs
from cgsa.edge.graph import GraphValue
from cgsa.edge.healthy_model import log_distance_graph
from cgsa.edge.package import export_package
from cgsa.edge.parity import LIMIT
from cgsa.edge.runner.own_start import StartComparison
from cgsa.errors import BundleError
from tests.edge.exported import differences, export, run_on_edge, settings_of, watched
from tests.machines import ensemble_bundle, start_bundle
from tests.starts import steady


def signals() -> list[FloatArray]:
    """A machine that is like wear while it is healthy, and then becomes like the healthy machines of the training."""
    return [steady("wear")[:, :1500], steady("health")[:, :1000]]


def test_both_rules_apply_on_the_edge_as_in_a_watch(tmp_path: Path) -> None:
    config = settings_of(start_bundle(), seconds=0.3)
    expected = watched(start_bundle(), config, signals(), healthy=True)
    without = watched(ensemble_bundle(), settings_of(ensemble_bundle(), seconds=0.3), signals(), healthy=True)
    found = run_on_edge(export(start_bundle(), config, tmp_path / "edge"), signals(), healthy=True)
    assert [one for pair in zip(expected, found, strict=True) for one in differences(*pair)] == []
    # Unchanged windows are healthier than without the comparison, and the changed machine is unknown.
    unchanged = [one["probabilities"]["health"] for one in found if one["source"] == "0"][4:]
    scores = [one["probabilities"]["health"] for one in without if one["source"] == "0"][4:]
    assert np.greater_equal(unchanged, np.subtract(scores, 1e-6)).all()
    assert np.mean(unchanged) > np.mean(scores) + 0.02
    assert found[-1]["verdict"] == "health"
    assert (found[-1]["state"], found[-1]["alarm"]) == ("unknown", "unknown")
    assert (without[-1]["state"], without[-1]["alarm"]) == ("health", None)


def test_the_exported_comparison_is_that_of_torch(tmp_path: Path) -> None:
    package = export(start_bundle(), settings_of(start_bundle()), tmp_path / "edge")
    comparison = StartComparison(package)
    rows = comparison.rows(package.features(steady("health")[:, :500])["features"])
    probabilities = np.tile([0.1, 0.3, 0.6], (len(rows), 1))
    assert not comparison.has_start
    before, change = comparison.compare(probabilities, rows)
    assert np.array_equal(before, probabilities)
    assert change is not None
    assert not change.any()
    comparison.keep(rows[:4])
    after, change = comparison.compare(probabilities, rows)
    assert comparison.has_start
    assert after.sum(axis=1) == pytest.approx(1.0)
    assert after[:4] == pytest.approx(np.tile([0.6, 0.3, 0.1], (4, 1)))
    assert change is not None
    assert (change > 0).all()


def test_a_model_without_limits_compares_nothing(tmp_path: Path) -> None:
    package = export(ensemble_bundle(), settings_of(ensemble_bundle()), tmp_path / "edge")
    comparison, features = StartComparison(package), np.ones((5, 7))
    rows = comparison.rows(features)
    comparison.keep(rows)
    assert rows.shape == (5, 0)
    assert not comparison.has_start
    assert comparison.compare(features, rows) == (features, None)


@pytest.mark.parametrize(("method", "written"), [(None, True), ("source", False)])
def test_the_graph_is_written_where_the_method_compares(method: str | None, written: bool, tmp_path: Path) -> None:  # noqa: FBT001
    export(start_bundle(), settings_of(start_bundle(), method), tmp_path / "edge")
    assert (tmp_path / "edge" / "own_start.onnx").exists() == written


def test_a_comparison_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slightly_wrong(*parts: object) -> GraphValue:
        return log_distance_graph(*parts) + 10 * LIMIT  # type: ignore[arg-type]

    monkeypatch.setattr(model_graphs, "log_distance_graph", slightly_wrong)
    with pytest.raises(BundleError, match=r"differs from torch by .* in a distance"):
        export_package(start_bundle(), settings_of(start_bundle()), tmp_path / "edge")
    assert list(tmp_path.iterdir()) == []
