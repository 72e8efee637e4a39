from __future__ import annotations

from cgsa.data.dataset_file import RecordingEntry
from cgsa.data.dataset_selection import SelectedRecording
from cgsa.evaluation.streams import evaluation_streams


def recorded(label: str, speed: float, specimen: int = 1, run: str = "") -> SelectedRecording:
    point = f"speed {speed:g} rpm"
    entry = RecordingEntry(f"{label}_{speed:g}_{specimen}{run}.parquet", label, {"speed": speed})
    return SelectedRecording(entry, point, point + run, specimen)


def test_every_recording_is_judged_once_the_healthy_ones_first() -> None:
    given = [recorded("worn", 600), recorded("healthy", 600), recorded("healthy", 900)]
    streams = evaluation_streams(given, "healthy")
    assert [stream.judged for stream in streams] == [given[1], given[2], given[0]]
    assert [len(stream.parts) for stream in streams] == [1, 1, 2]


def test_before_a_fault_comes_the_nearest_healthy_recording() -> None:
    same, other, far = recorded("healthy", 600, 2), recorded("healthy", 600, 1), recorded("healthy", 1200, 2)
    [*_, stream] = evaluation_streams([far, other, same, recorded("worn", 600, 2)], "healthy")
    assert stream.before == same
    assert not stream.at_other_condition
    [*_, stream] = evaluation_streams([far, other, recorded("worn", 600, 2)], "healthy")
    assert stream.before == other
    [*_, stream] = evaluation_streams([far, recorded("healthy", 900, 1), recorded("worn", 600, 2)], "healthy")
    assert stream.before == recorded("healthy", 900, 1)
    assert stream.at_other_condition


def test_without_a_healthy_recording_the_fault_stands_alone() -> None:
    [stream] = evaluation_streams([recorded("worn", 600)], "healthy")
    assert stream.before is None
    assert stream.parts == (stream.judged,)
