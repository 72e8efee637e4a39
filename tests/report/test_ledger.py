from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import run_stream
from cgsa.ledger.columns import FIXED, Column, LabelColumn
from cgsa.ledger.rows import LEARNT, NEVER_LEARNS, NOT_CONFIDENT, REASONS
from cgsa.online.base import OnlineMethod
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import FrozenSource
from cgsa.report.figures import MAX_POINTS, to_svg
from cgsa.report.ledger import figure_timeline, ledger_figure
from cgsa.report.timeline import LedgerTimeline, timeline_columns
from tests.machines import BOTH, CLASSES, RATE, SPEC, bundle, stream_windows


def rows(window: list[int], *, classes: tuple[str, ...] = CLASSES, response: bool = True) -> dict[str, Column]:
    """Rows whose columns are functions of the window number."""
    number = np.asarray(window, dtype=np.int64)
    made: dict[str, Column] = {
        "window": number,
        "confidence": (number % 7 / 7).astype(np.float32),
        "accepted": number % 2 == 0,
        "verdict": LabelColumn((number // 5 % len(classes)).astype(np.int32), classes),
        "reason": LabelColumn((number % 2).astype(np.int32), (LEARNT, NOT_CONFIDENT)),
        "source": LabelColumn((number * 0).astype(np.int32), ("here",)),
    }
    return made | ({"response": number.astype(np.float32)} if response else {})


@given(
    total=st.integers(1, 200),
    intervals=st.integers(1, 40),
    share=st.floats(0, 1),
    batch=st.integers(1, 64),
    seed=st.integers(0, 1000),
)
def test_the_timeline_equals_a_loop(total: int, intervals: int, share: float, batch: int, seed: int) -> None:
    chosen = np.flatnonzero(np.random.default_rng(seed).random(total) < share).tolist()
    timeline = LedgerTimeline(total, 0.5, intervals=intervals, classes=CLASSES)
    for begin in range(0, len(chosen), batch):
        timeline.add(rows(chosen[begin : begin + batch]))
    borders = timeline.borders / 0.5
    assert borders[0] == 0
    assert borders[-1] == total
    for place, (begin, end) in enumerate(pairwise(borders)):
        inside = [window for window in chosen if begin <= window < end]
        assert timeline.windows[place] == len(inside)
        verdicts = Counter(CLASSES[window // 5 % 3] for window in inside)
        assert {label: n[place] for label, n in timeline.counts("verdict").items() if n[place]} == dict(verdicts)
        if inside:
            assert timeline.means["confidence"][place] == pytest.approx(np.mean([window % 7 / 7 for window in inside]))
            assert sum(share[place] for share in timeline.shares("reason").values()) == pytest.approx(1)
        else:
            assert np.isnan(timeline.means["confidence"][place])
            assert all(np.isnan(share[place]) for share in timeline.shares("reason").values())
    assert sum(timeline.totals("source").values()) == pytest.approx(1 if chosen else 0)


def test_labels_have_a_fixed_order() -> None:
    timeline = LedgerTimeline(20, 1.0, intervals=2, classes=CLASSES)
    timeline.add(rows(list(range(10)), classes=("crack", "health", "odd")))
    assert list(timeline.counts("verdict")) == ["health", "crack"]
    assert list(timeline.counts("reason")) == [LEARNT, NOT_CONFIDENT]
    timeline.add(rows(list(range(10, 20)), classes=("crack", "health", "odd")))
    assert list(timeline.counts("verdict")) == ["health", "crack", "odd"]


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_points_are_thinned_evenly_over_batches(batch: int) -> None:
    timeline = LedgerTimeline(1000, 0.5, intervals=3, keep_every=10)
    for begin in range(0, 1000, batch):
        timeline.add(rows(list(range(begin, min(begin + batch, 1000)))))
    points = timeline.points[""]
    assert points.response.tolist() == list(range(0, 1000, 10))
    assert points.time.tolist() == [0.5 * window for window in range(0, 1000, 10)]
    assert points.accepted.all()
    assert np.isnan(points.queue_mean).all()


def test_a_figure_keeps_few_points_however_long_the_stream() -> None:
    timeline = figure_timeline(50 * MAX_POINTS, 1.0, CLASSES)
    for begin in range(0, 50 * MAX_POINTS, 1000):
        timeline.add(rows(list(range(begin, begin + 1000))))
    assert len(timeline.points[""].time) == MAX_POINTS


def timeline_of(method: OnlineMethod) -> LedgerTimeline:
    windows = stream_windows()
    timeline = figure_timeline(len(windows), SPEC.step / RATE, CLASSES)
    run_stream(Diagnoser(method), windows, batch_size=64, on_rows=timeline.add)
    return timeline


def test_the_figure_shows_verdicts_response_and_reasons() -> None:
    figure = ledger_figure(timeline_of(Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5})), "title")
    top, middle, bottom = figure.axes
    assert {*top.get_legend_handles_labels()[1]} <= {*CLASSES, "mean confidence"}
    assert middle.get_legend_handles_labels()[1] == ["rejected", "used for adaptation", "mean of the queue"]
    assert LEARNT in bottom.get_legend_handles_labels()[1]
    assert {*bottom.get_legend_handles_labels()[1]} <= set(REASONS)
    assert "<svg" in to_svg(figure)


def test_trust_is_drawn_if_it_was_recorded() -> None:
    windows, source = stream_windows(), bundle()
    timeline = figure_timeline(len(windows), SPEC.step / RATE, CLASSES)
    diagnoser = Diagnoser(Cgsa(source), DecisionMaker(FilterConfig(), source.manifest))
    run_stream(diagnoser, windows, batch_size=64, on_rows=timeline.add)
    assert ledger_figure(timeline, "title").axes[3].get_legend_handles_labels()[1] == [
        "frozen model agrees",
        "covered by training",
        "estimated accuracy",
    ]


def test_the_figure_shows_the_response_to_every_condition() -> None:
    timeline = timeline_of(Cgsa(bundle(conditions=BOTH.conditions), {"queue": 20}))
    assert list(timeline.points) == ["torque", "speed"]
    figure = ledger_figure(timeline, "title")
    assert [axis.get_ylabel() for axis in figure.axes[1:-1]] == [
        "residual response\nto torque",
        "residual response\nto speed",
    ]
    assert "<svg" in to_svg(figure)


def test_a_timeline_needs_few_columns() -> None:
    columns = [*FIXED, "response_speed", "queue_mean_speed", "deviation", "pseudo_label"]
    assert timeline_columns(columns) == [
        *(name for name in FIXED if name != "time"),
        "response_speed",
        "queue_mean_speed",
    ]


def test_a_method_without_response_has_a_figure() -> None:
    figure = ledger_figure(timeline_of(FrozenSource(bundle())), "title")
    assert figure.axes[1].texts[0].get_text() == "the method does not use it"
    assert figure.axes[2].get_legend_handles_labels()[1] == [NEVER_LEARNS]


def test_no_window_many_classes_and_odd_names_have_a_figure() -> None:
    to_svg(ledger_figure(figure_timeline(0, 1.0, CLASSES), "nothing"))
    classes = tuple(f"$\\class_{number}" for number in range(30))
    timeline = figure_timeline(300, 1.0, classes)
    timeline.add(rows(list(range(300)), classes=classes))
    assert to_svg(ledger_figure(timeline, "$\\title"))
