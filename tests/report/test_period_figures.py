from __future__ import annotations

import numpy as np
import pytest
from matplotlib.dates import ConciseDateFormatter

from cgsa.live.store import Snippet
from cgsa.report.period_figures import MAX_SAMPLES, SPECTRUM_LINES, period_figure, snippet_figure
from cgsa.report.period_timeline import PeriodTimeline
from tests.report.stored_batches import BEGUN, stored_batch


@pytest.mark.parametrize("place", [1, 7777, 99_998])
def test_a_waveform_shows_every_peak(place: int) -> None:
    """A single spike, wherever it is, must not be lost when the waveform is reduced."""
    samples = np.zeros((1, 100_000), np.float32)
    samples[0, place] = 1000.0
    left, right = snippet_figure(Snippet("press", BEGUN, 1, 10_000.0, ("x",), samples)).axes
    x, y = map(np.asarray, left.get_lines()[0].get_data())
    assert len(y) <= MAX_SAMPLES
    assert np.max(y) == pytest.approx(1000.0, rel=1e-3)
    assert x[np.argmax(y)] == pytest.approx(place / 10_000.0)
    assert len(np.asarray(right.get_lines()[0].get_xdata())) <= SPECTRUM_LINES


def test_a_spectrum_shows_its_highest_frequencies() -> None:
    time = np.arange(10_000)
    samples = np.cos(np.pi * 0.9998 * time).astype(np.float32)[None]
    _, right = snippet_figure(Snippet("press", BEGUN, 1, 10_000.0, ("x",), samples)).axes
    frequency, amplitude = right.get_lines()[0].get_data()
    assert np.asarray(frequency)[np.argmax(amplitude)] == pytest.approx(4999, abs=5)


def test_the_time_axis_shows_dates_in_utc() -> None:
    timeline = PeriodTimeline(BEGUN, BEGUN + 60)
    for batch in range(60):
        timeline.add(stored_batch(batch))
    figure = period_figure(timeline, [(BEGUN + 10, BEGUN + 20)])
    assert isinstance(figure.axes[-1].xaxis.get_major_formatter(), ConciseDateFormatter)
    figure.draw_without_rendering()
    assert figure.axes[-1].xaxis.get_offset_text().get_text().startswith("2023-Nov-14 22:1")
