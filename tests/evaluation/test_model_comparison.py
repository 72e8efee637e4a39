from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgsa.evaluation.model_comparison import (
    ComparedStream,
    ModelComparison,
    ModelRun,
    SideFigures,
    StateSpan,
    disagreements,
    spans_of,
)
from cgsa.report.comparison_tables import comparison_sentences, side_tables

STATES = st.lists(st.sampled_from(["healthy", "worn", "cracked"]), min_size=1, max_size=12)


@given(STATES, STATES)
def test_courses_differ_where_their_windows_do(old: list[str], new: list[str]) -> None:
    seconds = float(max(len(old), len(new)))
    courses = [spans_of([place + 1.0 for place in range(len(one))], one, seconds) for one in (old, new)]
    assert [(one[0].begin, one[-1].end) for one in courses] == [(0.0, seconds)] * 2
    found = disagreements(*courses)
    for place in range(int(seconds)):
        pair = old[min(place, len(old) - 1)], new[min(place, len(new) - 1)]
        here = [(one.old, one.new) for one in found if one.begin < place + 0.5 < one.end]
        assert here == ([pair] if pair[0] != pair[1] else [])


def run(state: str, **settings: object) -> ModelRun:
    return ModelRun((StateSpan(0.0, 10.0, state),), (), **{"trained": False, **settings})  # type: ignore[arg-type]


def stream(truth: str, old: ModelRun, new: ModelRun) -> ComparedStream:
    return ComparedStream(f"{truth}.parquet", "", truth, truth == "healthy", 10.0, 10.0, old, new)


STREAMS = (
    stream("healthy", run("healthy", right=1.0, false_alarms=1, trained=True), run("healthy", right=0.8)),
    stream("worn", run("healthy", right=0.0), run("worn", right=1.0, delay=2.0, named_delay=2.0)),
    stream("cracked", run("worn", right=0.2, delay=4.0), run("cracked", right=0.6, delay=4.0)),
)


def test_figures_count_healthy_and_faulty_recordings_half_each() -> None:
    old, new = (SideFigures.over(STREAMS, side) for side in ("old", "new"))
    assert (old.right, new.right) == (0.55, 0.8)
    assert (old.faults, old.alarms, old.named, old.delay, old.false_alarms, old.trained) == (2, 1, 0, 4.0, 1, 1)
    assert (new.alarms, new.named, new.delay, new.false_alarms, new.healthy_seconds) == (2, 1, 3.0, 0, 10.0)


def test_recordings_new_to_both_models_lead() -> None:
    found = ModelComparison("a", "b", "data", STREAMS)
    sentences = comparison_sentences(found)
    assert sentences[0] == (
        "On the 2 recordings new to both models, 0.800 of the verdicts of b are right, and 0.100 of those of a."
    )
    assert sentences[1] == "Their verdicts differ in 66.7 % of the time."
    assert [table.title for table in side_tables(found)] == ["New to both models: 2", "All recordings: 3"]
