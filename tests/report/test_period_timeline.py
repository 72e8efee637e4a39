from __future__ import annotations

from dataclasses import replace

import numpy as np

from cgsa.report.period_timeline import INTERVALS, PeriodTimeline
from tests.report.stored_batches import BEGUN, stored_batch


def test_the_timeline_is_the_sum_of_its_batches() -> None:
    """Literal twin: intervals as wide as a batch."""
    timeline = PeriodTimeline(BEGUN, BEGUN + INTERVALS)
    batches = [stored_batch(n, flagged=(n * 37) % 256) for n in range(INTERVALS)]
    for batch in batches:
        timeline.add(batch)
    times, shares = timeline.curve("flagged", "windows")
    assert np.allclose(times, [BEGUN + n + 0.5 for n in range(INTERVALS)])
    assert np.allclose(shares, [batch.flagged / 256 for batch in batches])
    assert timeline.total("windows") == 256 * INTERVALS
    assert timeline.spans == [(BEGUN, BEGUN + INTERVALS, "health")]


def test_a_gap_separates_spans() -> None:
    timeline = PeriodTimeline(BEGUN, BEGUN + 1000)
    timeline.add(stored_batch(0))
    later = stored_batch(0)
    timeline.add(replace(later, diagnosis=replace(later.diagnosis, begin=BEGUN + 500, end=BEGUN + 501)))
    assert len(timeline.spans) == 2
