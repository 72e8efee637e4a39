from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.bench.records import RunRecord
from cgsa.bench.stream_details import AFTER, BEFORE, INTERVAL_BORDERS, StreamDetails, stream_details
from cgsa.errors import ConfigError
from cgsa.metrics.stream import StreamTrace

STAGES = ("C1", "C2", "C3")
WINDOWS = 3000
ONSET = 1500


def make_trace(*, gated: bool = True, onset: int | None = ONSET, batch_size: int = 256) -> StreamTrace:
    rng = np.random.default_rng(0)
    deviation = rng.exponential(0.1, WINDOWS)
    deviation[:50] = np.nan
    evidence = {"deviation": deviation, "pseudo_label": rng.integers(0, 4, WINDOWS)}
    return StreamTrace(
        label=np.where(np.arange(WINDOWS) < (WINDOWS if onset is None else onset), 0, 2),
        stage=np.repeat(np.arange(3), WINDOWS // 3),
        probabilities=rng.dirichlet(np.ones(4), WINDOWS).astype(np.float32),
        accepted=rng.random(WINDOWS) > 0.5 if gated else None,
        evidence=evidence if gated else {},
        batch_size=batch_size,
    )


def test_batches_add_up_to_the_stream() -> None:
    trace = make_trace()
    kept = stream_details(trace, STAGES).batches
    begins = range(0, WINDOWS, 256)
    for place, begin in enumerate(begins):
        here = slice(begin, begin + 256)
        assert trace.accepted is not None
        assert kept.accepted is not None
        assert kept.windows[place] == len(trace.label[here])
        assert kept.right[place] == int(trace.correct[here].sum())
        assert kept.accepted[place] == int(trace.accepted[here].sum())
        assert kept.stage[place] == trace.stage[begin]
        assert kept.confidence[place] == pytest.approx(float(trace.confidence[here].mean()), abs=1e-5)


def test_stages_and_onset() -> None:
    kept = stream_details(make_trace(), STAGES)
    assert (kept.begins, kept.onset) == ((0, 1000, 2000), ONSET)
    assert stream_details(make_trace(onset=None), STAGES).onset is None


def test_intervals_against_a_loop() -> None:
    trace = make_trace()
    found = stream_details(trace, STAGES).intervals
    assert found is not None
    windows, right = [0] * len(INTERVAL_BORDERS), [0] * len(INTERVAL_BORDERS)
    for value, said, truth in zip(
        trace.evidence["deviation"], trace.evidence["pseudo_label"], trace.label, strict=True
    ):
        if not np.isnan(value):
            place = max(number for number, border in enumerate(INTERVAL_BORDERS) if border <= value)
            windows[place] += 1
            right[place] += said == truth
    assert (list(found.windows), list(found.right)) == (windows, right)


def test_transitions_contain_the_windows_around_each_change() -> None:
    trace = make_trace()
    transitions = {transition.name: transition for transition in stream_details(trace, STAGES).transitions}
    assert list(transitions) == ["C1 to C2", "onset", "C2 to C3"]
    assert trace.accepted is not None
    for name, at in (("C1 to C2", 1000), ("onset", ONSET), ("C2 to C3", 2000)):
        transition = transitions[name]
        assert transition.begin == -BEFORE
        assert transition.accepted == tuple(trace.accepted[at - BEFORE : at + AFTER].astype(int).tolist())
        assert len(transition.deviation) == len(transition.right) == BEFORE + AFTER


def test_an_onset_at_the_start_of_a_stage_appears_once() -> None:
    names = [transition.name for transition in stream_details(make_trace(onset=1000), STAGES).transitions]
    assert names == ["C1 to C2", "C2 to C3"]


def test_a_method_without_a_gate_has_only_batches() -> None:
    kept = stream_details(make_trace(gated=False), STAGES)
    assert kept.batches.accepted is None
    assert kept == StreamDetails(kept.batches, kept.begins, kept.onset)


def test_a_record_is_read_back_as_written(tmp_path: Path) -> None:
    row = {"scenario": "s", "fault": "f", "entry": "e", "trial": 3, "stage": "all"}
    record = RunRecord(({**row, "stage": "C1"}, row), stream_details(make_trace(), STAGES))
    record.save(tmp_path / "record.json")
    again = RunRecord.load(tmp_path / "record.json")
    assert again == record
    assert (again.scenario, again.fault, again.entry, again.trial, again.stages) == ("s", "f", "e", 3, ("C1",))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"rows": [], "details": {}}', "\x00"])
def test_a_file_that_is_not_a_record_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"record.json"):
        RunRecord.load(path)
