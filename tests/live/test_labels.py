"""Labels that people give to a watched machine whose model knows the healthy machine alone."""

from __future__ import annotations

import numpy as np

from cgsa.events import AlarmChange, Diagnosis, Label, Note
from cgsa.live.commands import Command
from cgsa.live.segments import JournalRecord
from cgsa.live.watch import COMMAND, Watch, WatchConfig, WatchResult
from cgsa.live.watched_signal import LocalSignal
from tests.live.stream import BEGUN, blocks, records
from tests.machines import ToyLibrary, healthy_bundle

SETTINGS = {"seconds": 0.3, "healthy_start": True, "history_seconds": 60.0}


def toy_watch() -> Watch:
    return Watch("toy", healthy_bundle(), WatchConfig("change", SETTINGS, batch_size=8))


def toy_signal() -> np.ndarray:
    """Three seconds of the healthy machine, then twelve of the worn one."""
    parts = [
        ToyLibrary(seed=1).get(state, "low", severity="H", specimen=1).signal[:, 1000:4000]
        for state in ("health", "wear", "wear", "wear", "wear")
    ]
    return np.concatenate(parts, axis=1)


def labelled(watch: Watch, state: str, begin: float, end: float) -> WatchResult:
    command = Command("label", "ann", "", {"state": state, "begin": begin, "end": end})
    return watch.apply(JournalRecord(0, COMMAND, command.to_bytes()))


def test_a_change_raises_an_alarm_and_a_label_names_it_from_then_on() -> None:
    watch, told = toy_watch(), []
    entries = list(records(blocks(toy_signal())))
    told = [event for entry in entries for event in watch.apply(entry).events]
    assert [event.fault for event in told if isinstance(event, AlarmChange) and event.change == "opened"] == ["changed"]
    result = labelled(watch, "worn gear", BEGUN + 6, BEGUN + 15)
    assert result.refused is None
    assert [type(event) for event in result.events] == [Label, Note]
    restored = toy_watch()
    restored.restore(*watch.state())
    for one in (watch, restored):
        assert isinstance(one.signal, LocalSignal)
        report = one.signal.method.change
        assert report is not None
        assert report.label == "worn gear"
    reports = [event.change for event in told if isinstance(event, Diagnosis)]
    assert all(one is not None and one.label is None for one in reports)


def test_a_label_outside_the_history_is_kept_and_says_so() -> None:
    watch = toy_watch()
    for entry in list(records(blocks(toy_signal())))[:10]:
        watch.apply(entry)
    result = labelled(watch, "worn gear", BEGUN - 100, BEGUN - 90)
    assert result.refused is None
    assert isinstance(result.events[0], Label)
    assert isinstance(result.events[1], Note)
    assert "the method cannot use it" in result.events[1].text
