from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.windows import Windows
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import run_stream
from cgsa.metrics.stream import score
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import FrozenSource
from cgsa.report.figures import StreamComparison, overview_figure
from cgsa.report.stream import gate_sentence, score_header, score_row, stream_page
from tests.machines import BOTH, RATE, SPEC, TwoConditions, bundle, stream_windows


@pytest.fixture(scope="module")
def comparison() -> StreamComparison:
    windows = stream_windows()
    methods = {"source": FrozenSource(bundle()), "cgsa": Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5})}
    return StreamComparison(
        title="A toy <machine>",
        traces={name: run_stream(Diagnoser(method), windows, batch_size=64) for name, method in methods.items()},
        stages=("C1", "C2", "C3"),
        seconds_per_window=SPEC.step / RATE,
        conditions=("torque in Nm",),
    )


def test_the_report_is_self_contained(comparison: StreamComparison, tmp_path: Path) -> None:
    path = stream_page(comparison, ["cgsa demo"], ["A fact."]).write(tmp_path / "report.html")
    text = path.read_text()
    assert "<svg" in text
    assert "A toy &lt;machine&gt;" in text
    assert "<script" not in text
    # Links may appear only as XML namespaces in an SVG and inside the page (#id, data:).
    for attribute, target in re.findall(r'(src|href)="([^"]*)"', text):
        assert target.startswith(("#", "data:")), (attribute, target)
    for trace in comparison.traces.values():
        assert f"{score(trace).average_accuracy:.3f}" in text


def test_rows_fit_their_header(comparison: StreamComparison) -> None:
    for name, trace in comparison.traces.items():
        assert len(score_row(name, score(trace))) == len(score_header(comparison.stages))


def test_a_method_without_a_gate_has_a_report(comparison: StreamComparison) -> None:
    alone = StreamComparison("t", {"source": comparison.traces["source"]}, comparison.stages, 0.01, ("torque in Nm",))
    assert "no method uses it" in stream_page(alone, [], []).html


def test_every_condition_has_its_panels() -> None:
    windows = Windows(BOTH.stream_segments(TwoConditions(), "wear"), SPEC, conditions=BOTH.condition_names)
    method = Cgsa(bundle(conditions=BOTH.conditions), {"queue": 20})
    trace = run_stream(Diagnoser(method), windows, batch_size=64)
    comparison = StreamComparison(
        "t", {"cgsa": trace}, ("C1", "C2", "C3"), SPEC.step / RATE, ("torque in Nm", "speed in rpm")
    )
    figure = overview_figure(comparison)
    labels = [axis.get_ylabel().replace("\n", " ") for axis in figure.axes]
    assert (labels[:2], labels[4:6]) == (
        list(comparison.conditions),
        ["residual response to torque", "residual response to speed"],
    )
    drawn = [axis.get_lines()[0].get_ydata() for axis in figure.axes[:2]]
    assert trace.conditions is not None
    np.testing.assert_array_equal(np.stack(drawn, axis=1), trace.conditions)


def test_the_report_says_in_one_line_what_the_gate_did(comparison: StreamComparison) -> None:
    trace = comparison.traces["cgsa"]
    line = gate_sentence("cgsa", trace)
    assert line is not None
    assert f"{score(trace).acceptance_rate:.1%} of the windows accepted" in line
    assert line in stream_page(comparison, [], []).html
    assert gate_sentence("source", comparison.traces["source"]) is None
