from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgsa.data.recording import Recording
from cgsa.errors import BundleError
from cgsa.events import NO_DATA, AlarmChange, Diagnosis, Event, Note
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.ledger.rows import NEVER_LEARNS
from cgsa.live.alarms import AlarmConfig
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.quality import WINDOW_REASONS
from cgsa.live.levels.config import LevelConfig
from cgsa.live.segments import Entry, JournalRecord, LostRecords
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND, FROZEN, OVERLOADED, Watch, WatchConfig, WatchResult
from cgsa.live.watched_signal import LocalSignal
from cgsa.workflow import diagnose
from tests.live.stream import BEGUN, MACHINE, blocks, records, signal, watch
from tests.machines import RATE, SPEC, bundle, ensemble_bundle


def fed(one: Watch, entries: Sequence[Entry]) -> list[WatchResult]:
    return [one.apply(entry) for entry in entries]


def events(told: Sequence[WatchResult]) -> list[Event]:
    return [event for each in told for event in each.events]


def diagnoses(told: Sequence[WatchResult]) -> list[Diagnosis]:
    return [event for event in events(told) if isinstance(event, Diagnosis)]


def notes(told: Sequence[WatchResult]) -> list[Note]:
    return [event for event in events(told) if isinstance(event, Note)]


def standing(one: Watch) -> str:
    return one.alarms.alarm_state


def commanded(one: Watch, command: Command) -> WatchResult:
    return one.apply(JournalRecord(0, COMMAND, command.to_bytes()))


def same(a: dict[str, Tensor], b: dict[str, Tensor], under: str = "") -> bool:
    """Whether states have the same bits."""
    names = [name for name in a if name.startswith(under)]
    return a.keys() == b.keys() and all(
        a[name].shape == b[name].shape and torch.equal(a[name].nan_to_num(), b[name].nan_to_num()) for name in names
    )


def column(ledger: Sequence[Columns], name: str) -> list[object]:
    found: list[object] = []
    for columns in ledger:
        values = columns[name]
        found += [values.labels[code] for code in values.codes] if isinstance(values, LabelColumn) else values.tolist()
    return found


def ledger(told: Sequence[WatchResult]) -> list[Columns]:
    return [columns for each in told for columns in each.ledger]


def test_blocks_get_the_verdicts_of_the_whole_recording() -> None:
    samples = signal()
    live = diagnoses(fed(watch(), list(records(blocks(samples)))))
    recording = Recording(samples, RATE, ("a", "b"), ("g", "g"), source=MACHINE)
    offline = [batch.event for batch in diagnose(SignalDiagnoser(bundle(), watch().config), [recording])]
    assert len(live) > 10
    for ours, theirs in zip(live, offline, strict=False):
        assert replace(ours, begin=0, end=0) == replace(theirs, begin=0, end=0)
        assert ours.begin == pytest.approx(BEGUN + theirs.begin)
        assert ours.end == pytest.approx(BEGUN + theirs.end)


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_blocks_may_end_anywhere(sizes: list[int]) -> None:
    samples = signal(3.0)
    ours, theirs = watch(), watch()
    said = diagnoses(fed(ours, list(records(blocks(samples, sizes)))))
    expected = diagnoses(fed(theirs, list(records(blocks(samples)))))
    # Times differ in the last bits: they are counted from the first block.
    assert [(d.batch, d.probabilities, d.accepted, d.state) for d in said] == [
        (d.batch, d.probabilities, d.accepted, d.state) for d in expected
    ]
    assert same(ours.state()[0], theirs.state()[0])


@pytest.mark.parametrize("method", ["cgsa", "reference", "source"])
@pytest.mark.parametrize("cut", [0, 1, 7, 23, 40])
def test_goes_on_from_its_state_with_the_same_bits(method: str, cut: int) -> None:
    samples = signal(4.0)
    samples[0, 1500:1600] = 0.25
    samples[1, 800:1300] = np.clip(samples[1, 800:1300], -0.1, 9.0)  # a rail that is known from then on
    entries: list[Entry] = [*records(blocks(samples))]
    entries.insert(12, JournalRecord(100, COMMAND, Command("freeze", "ann").to_bytes()))
    entries.insert(20, JournalRecord(101, COMMAND, Command("thaw", "ann").to_bytes()))
    entries[30] = JournalRecord(30, BLOCK_NOT_LEARNT, entries[30].payload)  # type: ignore[union-attr]
    levels = LevelConfig(("a velocity 20 30", "automatic"), duration=0.5, start_seconds=1.0, trend_hours=1e-3)
    whole, part = watch(method, levels=levels), watch(method, levels=levels)
    fed(whole, entries[:cut])
    fed(part, entries[:cut])
    tensors, rest = part.state()
    resumed = watch(method, levels=levels)
    fed(resumed, list(records(blocks(signal(1.0, "crack")))))  # a past of its own: all of it must go
    resumed.restore(tensors, json.loads(json.dumps(rest)))
    for entry in entries[cut:]:
        ours, expected = resumed.apply(entry), whole.apply(entry)
        assert ours.events == expected.events
        assert [column([columns], "reason") for columns in ours.ledger] == [
            column([columns], "reason") for columns in expected.ledger
        ]
    assert same(resumed.state()[0], whole.state()[0])
    assert resumed.state()[1] == whole.state()[1]


def test_a_state_of_another_model_or_method_is_refused() -> None:
    tensors, rest = watch().state()
    with pytest.raises(BundleError, match="written with another model, method or setting"):
        watch("source").restore(tensors, rest)
    with pytest.raises(BundleError, match="state of toy"):
        watch().restore(tensors, {"frozen": "perhaps"})


def faulty(reason: str, samples: np.ndarray) -> np.ndarray:
    """Break a whole stretch of samples."""
    broken = samples.copy()
    match reason:
        case "not a number":
            broken[0] = np.nan
        case "infinite":
            broken[1] = -np.inf
        case "flat line":
            broken[0] = 0.3
        case "drop-out":
            # Short holds all over, of which every window has one and none is half a window long.
            for begin in range(0, broken.shape[1], 20):
                broken[0, begin : begin + 10] = broken[0, begin]
        case "clipped":
            broken[0] = np.clip(broken[0], -0.1, 0.1)
        case _:
            broken[1] += 1000.0
    return broken


@pytest.mark.parametrize("reason", ["not a number", "infinite", "flat line", "drop-out", "clipped", "out of range"])
@pytest.mark.parametrize("method", ["cgsa", "reference"])
def test_a_broken_sensor_changes_nothing_of_the_model(reason: str, method: str) -> None:
    samples = signal(6.0)
    samples[:, 2000:4000] = faulty(reason, samples[:, 2000:4000])
    one = watch(method)
    entries = list(records(blocks(samples)))
    fed(one, entries[:20])
    told = fed(one, entries[20:26])
    middle = one.state()[0]
    told += fed(one, entries[26:40])
    # Once a whole batch is bad, nothing changes any more.
    for part in ("method", "decision"):
        assert same(one.state()[0], middle, part)
    found, times = column(ledger(told), "reason"), np.array(column(ledger(told), "time"))
    bad = [word in WINDOW_REASONS[1:] for word in found]
    assert all(bad[bad.index(True) :])
    assert Counter(word for word, flag in zip(found, bad, strict=True) if flag).most_common(1)[0][0] == reason
    # The first window that is flagged holds no more broken samples than the paper's windows are apart.
    assert times[bad.index(True)] + SPEC.length / RATE <= BEGUN + 2.0 + 16.5 / RATE
    assert one.counts.flagged == sum(bad)
    whole = [d for d in diagnoses(told) if sum(d.flagged.values()) == d.windows]
    assert whole
    assert all(d.verdict == d.state == NO_DATA and d.probabilities == {} for d in whole)
    assert any(note.text.startswith(f"{reason} on ") for note in notes(told))
    after = fed(one, entries[40:])
    assert diagnoses(after)[-1].state != NO_DATA
    assert any("is over after" in note.text for note in notes(after))


@pytest.mark.parametrize("change", ["rate", "order", "missing", "late", "jump"])
def test_a_wrong_block_changes_nothing_of_the_model(change: str) -> None:
    sent = blocks(signal(4.0))
    one = watch()
    fed(one, list(records(sent[:20])))
    good = sent[20]
    wrong = {
        "rate": replace(good, sample_rate=900.0),
        "order": replace(good, channels=("b", "a")),
        "missing": Block(MACHINE, 20, good.time, RATE, ("a",), good.samples[:1]),
        "late": sent[3],
        "jump": replace(good, time=good.time + 90.0),
    }[change]
    tensors, _ = one.state()
    told = one.apply(JournalRecord(20, BLOCK, wrong.to_bytes()))
    assert same(one.state()[0], tensors)
    assert [event.topic for event in told.events if isinstance(event, Note)] == ["sensor"]
    assert diagnoses([told]) == []
    assert one.counts.refused_blocks == 1
    said = diagnoses(fed(one, list(records(sent[21:]))))
    assert said[-1].state != NO_DATA


def test_no_window_crosses_a_gap() -> None:
    sent = blocks(signal(6.0))
    one = watch()
    told = fed(one, list(records(sent[:21] + sent[33:])))
    gaps = [note for note in notes(told) if note.topic == "gap"]
    assert [gap.details["blocks"] for gap in gaps] == [12]
    assert gaps[0].details["seconds"] == pytest.approx(1.2)
    begins, lost = np.array(column(ledger(told), "time")), (BEGUN + 2.1, BEGUN + 3.3)
    assert not any((begins + SPEC.length / RATE > lost[0] + 1e-6) & (begins < lost[1] - 1e-6))
    # What was held back before the gap was not lost: its batch is a short one.
    assert np.diff(begins)[np.diff(begins) < 0.5].max() == pytest.approx(SPEC.step / RATE)
    assert min(d.windows for d in diagnoses(told)) < 64


def test_lost_records_are_a_gap_too() -> None:
    sent = list(records(blocks(signal(4.0))))
    one = watch()
    told = fed(one, [*sent[:10], LostRecords(10, 15, "a bit flipped"), *sent[15:]])
    assert [note.topic for note in notes(told)] == ["journal", "gap"]
    assert "a bit flipped" in notes(told)[0].text


def test_frozen_it_diagnoses_and_learns_nothing() -> None:
    entries = list(records(blocks(signal(6.0))))
    one = watch()
    fed(one, entries[:20])
    assert commanded(one, Command("freeze", "ann", "too noisy")).events[0].to_json()
    before = one.state()[0]
    told = fed(one, entries[20:40])
    assert diagnoses(told)
    assert same(one.state()[0], before, "method")
    assert set(column(ledger(told), "reason")) == {FROZEN}
    assert diagnoses(told)[-1].trust.note.startswith(FROZEN)  # type: ignore[union-attr]
    assert commanded(one, Command("freeze", "ann")).refused == "learning of toy is already frozen"
    commanded(one, Command("thaw", "ann"))
    fed(one, entries[40:])
    assert not same(one.state()[0], before, "method")


def test_under_too_much_work_it_diagnoses_and_learns_nothing() -> None:
    entries = list(records(blocks(signal(6.0))))
    one = watch()
    fed(one, entries[:20])
    before = one.state()[0]
    told = fed(one, [JournalRecord(entry.position, BLOCK_NOT_LEARNT, entry.payload) for entry in entries[20:40]])
    assert same(one.state()[0], before, "method")
    assert set(column(ledger(told), "reason")) == {OVERLOADED}
    assert one.counts.shed == sum(d.windows for d in diagnoses(told))


def test_rolls_back_and_resets() -> None:
    entries = list(records(blocks(signal(6.0))))
    states: dict[int, dict[str, Tensor]] = {}
    one = Watch(MACHINE, bundle(), watch().config, model="toy", recall=states.__getitem__)
    fresh = one.state()[0]
    fed(one, entries[:20])
    states[7] = one.state()[0]
    fed(one, entries[20:40])
    assert not same(one.state()[0], states[7], "method")
    told = commanded(one, Command("roll_back", "ann", "it drifted", {"state": 7}))
    assert [event.topic for event in told.events if isinstance(event, Note)] == ["roll back"]
    assert same(one.state()[0], states[7], "method")
    # Where the stream stands is not rolled back.
    assert not same(one.state()[0], states[7], "cutter")
    commanded(one, Command("reset", "ann"))
    assert same(one.state()[0], fresh, "method")
    assert same(one.state()[0], fresh, "decision")
    refused = commanded(watch(), Command("roll_back", "ann", "", {"state": 1})).refused
    assert "nothing to roll back to" in (refused or "")


def test_alarms_are_raised_acknowledged_and_survive() -> None:
    alarms = AlarmConfig(on_delay=0.2, off_delay=0.5)
    # The toy model is untrained, and calls all kinds of things a fault.
    entries = list(records(blocks(signal(8.0))))
    one = watch(alarms=alarms)
    told = fed(one, entries)
    raised = [event for event in events(told) if isinstance(event, AlarmChange)]
    assert [event.change for event in raised if event.notify][:1] == ["opened"]
    restored = watch(alarms=alarms)
    restored.restore(*one.state())
    assert standing(one) == "raised"
    assert restored.alarms.state() == one.alarms.state()
    other = commanded(restored, Command("acknowledge", "ann", "", {"case": 2}))
    assert other.refused == "toy: case 2 is no longer the newest; reload"
    assert commanded(restored, Command("acknowledge", "ann", "on my way", {"case": 1})).refused is None
    assert standing(restored) == "acknowledged"
    assert commanded(restored, Command("acknowledge", "ann")).refused is not None
    assert commanded(restored, Command("shelve", "ann", "known", {"seconds": 60})).refused is None
    assert standing(restored) == "shelved"
    for command in (
        Command("unshelve", "ann"),
        Command("comment", "ann", "bearing ordered"),
        Command("label", "ann", "", {"state": "wear", "begin": BEGUN, "end": BEGUN + 1}),
        Command("close", "ann"),
        Command("remark", "service", "hello"),
    ):
        assert commanded(restored, command).refused is None


def test_silence_is_an_alarm_of_its_own() -> None:
    one = watch()
    fed(one, list(records(blocks(signal(1.0)))))
    told = commanded(one, Command("silence", "service", details={"seconds": 61.0}))
    assert [event.fault for event in told.events if isinstance(event, AlarmChange)] == [NO_DATA]


def test_garbage_in_the_journal_is_told_and_changes_nothing() -> None:
    one = watch()
    fed(one, list(records(blocks(signal(1.0)))))
    before = one.state()
    assert [note.topic for note in notes([one.apply(JournalRecord(3, BLOCK, b"garbage"))])] == ["journal"]
    assert one.apply(JournalRecord(4, COMMAND, b"garbage")).refused is not None
    assert same(one.state()[0], before[0])
    assert one.state()[1] == before[1]


def test_a_method_that_never_learns() -> None:
    told = fed(watch("source"), list(records(blocks(signal(2.0)))))
    assert set(column(ledger(told), "reason")) == {NEVER_LEARNS}


def alarms(told: Sequence[WatchResult]) -> list[AlarmChange]:
    return [event for event in events(told) if isinstance(event, AlarmChange)]


def louder(seconds: float = 8.0) -> np.ndarray:
    """A healthy signal that is four times as strong for some of its seconds."""
    samples = signal(seconds)
    samples[:, round(2 * RATE) : round(5 * RATE)] *= 4
    return samples


def test_a_level_raises_an_alarm_whatever_the_model_says() -> None:
    never = AlarmConfig(on_delay=1e6, off_delay=0.0)  # the diagnosis alone would never raise one
    levels = LevelConfig("a velocity 40 60", duration=0.5)
    one = watch("source", alarms=never, levels=levels)
    told = fed(one, list(records(blocks(louder()))))
    found = alarms(told)
    assert [(event.change, event.fault) for event in found][:1] == [("opened", "level alarm: a velocity")]
    assert found[0].notify
    assert found[0].text.startswith("a velocity ")
    assert found[0].text.endswith(" mm/s, alarm limit 60 mm/s")
    assert BEGUN + 2.5 <= found[0].time <= BEGUN + 3.2
    assert [note.text.split(" limit")[-1] for note in notes(told) if note.topic == "level"] == [
        " 60 mm/s",
        " 60 mm/s; returned to normal",
    ]


def test_a_level_raises_an_alarm_while_another_sensor_is_dead() -> None:
    samples = louder()
    samples[1] = 0.25
    one = watch("source", levels=LevelConfig("a velocity 40 60", duration=0.5))
    told = fed(one, list(records(blocks(samples))))
    assert {found.state for found in diagnoses(told)} == {NO_DATA}
    assert [event.fault for event in alarms(told)][:1] == ["level alarm: a velocity"]


def test_a_level_raises_an_alarm_before_the_machine_is_commissioned() -> None:
    config = WatchConfig(method="commissioning", batch_size=8, levels=LevelConfig("* velocity 0.1 0.2", duration=0.5))
    config = replace(config, settings={"seconds": 3600.0}, alarms=AlarmConfig(on_delay=1e6))
    told = fed(Watch(MACHINE, ensemble_bundle(), config, model="toy"), list(records(blocks(signal(4.0)))))
    states = {found.commissioning.state for found in diagnoses(told) if found.commissioning is not None}
    assert states == {"waiting"}
    assert alarms(told)[0].fault == "level alarm: a velocity"


def test_levels_do_not_change_the_diagnosis() -> None:
    entries = list(records(blocks(louder())))
    plain, limited = fed(watch("cgsa"), entries), fed(watch("cgsa", levels=LevelConfig("automatic")), entries)
    assert [replace(event, levels=None) for event in diagnoses(limited)] == [
        replace(event, levels=None) for event in diagnoses(plain)
    ]


def test_limits_may_be_changed_without_losing_the_state() -> None:
    before = watch()
    fed(before, list(records(blocks(signal(3.0)))))
    tensors, rest = before.state()
    changed = watch(levels=LevelConfig("a velocity 1 2", duration=0.0))
    changed.restore(tensors, json.loads(json.dumps(rest)))
    assert changed.counts == before.counts


def test_a_state_of_a_version_without_levels_is_restored() -> None:
    before = watch()
    fed(before, list(records(blocks(signal(3.0)))))
    tensors, rest = before.state()
    after = watch()
    after.restore({name: tensor for name, tensor in tensors.items() if not name.startswith("levels.")}, rest)
    assert after.counts == before.counts


def test_a_reset_observes_a_new_start() -> None:
    one = watch("source", levels=LevelConfig("automatic", start_seconds=1.0))
    told = diagnoses(fed(one, list(records(blocks(signal(3.0))))))
    assert told[-1].levels is not None
    assert told[-1].levels.limits
    commanded(one, Command("reset", "ann", "repaired"))
    assert isinstance(one.signal, LocalSignal)
    note = one.signal.levels._note()
    assert note is not None
    assert "0% of the start observed" in note
