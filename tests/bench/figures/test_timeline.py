from __future__ import annotations

from cgsa.bench.figures.timeline import stream_timeline
from tests.bench.figures.made_records import make_record


def test_stages_and_onset_do_not_depend_on_the_batch_size() -> None:
    for size in (50, 250, 1800):
        timeline = stream_timeline([make_record(batch_size=size)])
        assert timeline.begins == {"C1": 0, "C2": 600, "C3": 1200}
        assert (timeline.end, timeline.onset) == (1800, 900)
