from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.events import AlarmChange, Case, Label
from cgsa.live.intake.block import Block
from cgsa.live.journal import Journal
from cgsa.live.labelled_signal import LabelledInterval, labelled_intervals, read_labelled_signal, subtract_spans
from cgsa.live.store import Snippet, Store
from cgsa.live.store.store import read_store

SPANS = st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda pair: (float(pair[0]), float(sum(pair))))


def label(state: str, span: tuple[float, float]) -> Label:
    return Label("p", 100.0, "ann", state, *span)


@given(SPANS, st.lists(SPANS, max_size=5))
def test_what_remains_of_a_span_is_what_no_part_covers(
    whole: tuple[float, float], parts: list[tuple[float, float]]
) -> None:
    rest = subtract_spans(whole, parts)
    middles = [place + 0.5 for place in range(30)]
    expected = [whole[0] < time < whole[1] and not any(a < time < b for a, b in parts) for time in middles]
    assert [any(a < time < b for a, b in rest) for time in middles] == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), SPANS), max_size=5), st.lists(SPANS, max_size=2))
def test_of_labels_about_the_same_time_the_newest_counts(
    given_labels: list[tuple[str, tuple[float, float]]], taken: list[tuple[float, float]]
) -> None:
    found = labelled_intervals([label(*one) for one in given_labels], [("p", span) for span in taken])
    for place in range(30):
        time = place + 0.5
        states = [state for state, (begin, end) in given_labels if begin < time < end]
        expected = states[:1] if not any(begin < time < end for begin, end in taken) else []
        assert [one.state for one in found if one.begin < time < one.end] == expected


def write_blocks(folder: Path, blocks: list[Block]) -> None:
    with Journal(folder / "journal") as journal:
        for block in blocks:
            journal.append("block", block.to_bytes())
            journal.append("command", b"{}")


def block(sequence: int, *, late: float = 0.0) -> Block:
    """A tenth of a second at 100 Hz whose samples count up."""
    samples = np.arange(10, dtype=np.float32)[None] + 10 * sequence
    return Block("p", sequence, 50.0 + sequence / 10 + late, 100.0, ("x",), samples, {"speed": 5.0}, {"x": "g"})


def test_samples_are_those_of_the_interval_and_a_gap_divides_them(tmp_path: Path) -> None:
    # The third block came twice, the sixth is missing.
    write_blocks(tmp_path, [block(number) for number in (0, 1, 2, 2, 3, 4, 6, 7)])
    Store(tmp_path / "store.sqlite").close()
    interval = LabelledInterval("p", "worn", 50.15, 50.68)
    with read_store(tmp_path / "store.sqlite") as snapshot:
        first, second = read_labelled_signal(tmp_path, snapshot, [interval])
    assert first.samples[0].tolist() == list(range(15, 50))
    assert second.samples[0].tolist() == list(range(60, 68))
    assert (first.time, first.units, first.conditions["speed"].tolist()) == (50.15, {"x": "g"}, [5.0] * 35)
    assert second.span[0] == 50.6


def test_what_the_journal_lost_is_taken_from_waveforms(tmp_path: Path) -> None:
    write_blocks(tmp_path, [block(number) for number in range(3, 6)])
    with Store(tmp_path / "store.sqlite") as store:
        samples = np.arange(-20, 40, dtype=np.float32)[None]
        case = Case(1, "raised", "high", "worn", ("worn",), 50.0, 50.0)
        store.add(1, 0, AlarmChange("p", 50.0, "opened", "worn", notify=True, case=case))
        store.add(1, 0, Snippet("p", 49.8, 1, 100.0, ("x",), samples))
    interval = LabelledInterval("p", "worn", 50.1, 50.5)
    with read_store(tmp_path / "store.sqlite") as snapshot:
        found = list(read_labelled_signal(tmp_path, snapshot, [interval]))
    together = np.concatenate([one.samples[0] for one in sorted(found, key=lambda one: one.time)])
    assert together.tolist() == list(range(10, 50))
