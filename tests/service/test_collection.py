"""What of labelled intervals becomes a recording, and what is left out with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.dataset import DataSet
from cgsa.data.recording import FloatArray
from cgsa.events import Label
from cgsa.live.intake.block import Block
from cgsa.live.journal import SEGMENT_BYTES, Journal
from cgsa.live.store import Store
from cgsa.service.collection import CollectionChoices, collect_labelled
from tests.data.made_machine import RATE, made_signal, write_machine

BEGIN = 1_700_000_000.0
GIVEN = CollectionChoices(conditions={"speed": 600.0})


def write_service(
    folder: Path,
    *,
    seconds: float = 6.0,
    speeds: tuple[float, ...] = (),
    samples: FloatArray | None = None,
    unit: str = "g",
    rate: float = RATE,
    end: float = 4.0,
    segment_bytes: int = SEGMENT_BYTES,
) -> Path:
    """Write the folder of a service with one label, about all but the first second."""
    signal = made_signal("cracked", 600, seconds=seconds) if samples is None else samples
    size = round(RATE)
    with Journal(folder / "machines" / "press-1" / "journal", segment_bytes=segment_bytes) as journal:
        for number in range(int(seconds)):
            part = np.ascontiguousarray(signal[:, number * size : (number + 1) * size])
            known = {"speed": speeds[number % len(speeds)]} if speeds else {}
            time = BEGIN + number * size / rate
            sent = Block("press-1", number, time, rate, ("x", "y"), part, known, {"x": unit})
            journal.append("block", sent.to_bytes())
    with Store(folder / "store.sqlite") as store:
        store.add(99, 0, Label("press-1", BEGIN + 9, "ann", "cracked", BEGIN + 1, BEGIN + 1 + end))
    return folder


def test_a_condition_that_nobody_knows_is_asked_given_or_left_out(tmp_path: Path) -> None:
    service, data_set = write_service(tmp_path / "s"), write_machine(tmp_path / "m")
    found = collect_labelled(service, data_set, CollectionChoices())
    assert found.added == ()
    assert "its speed is not known; pass --condition speed=VALUE" in found.left_out[0]
    asked = collect_labelled(service, data_set, CollectionChoices(ask=lambda interval, known: 610.0))
    assert asked.added[0].conditions == {"speed": 610.0}
    assert (asked.seconds, asked.left_out) == (4.0, ())


@pytest.mark.parametrize(
    ("speeds", "stored"), [((601.0, 599.0), 600.0), ((750.0,), 750.0), ((600.0, 900.0), (600.0, 900.0))]
)
def test_stated_conditions_are_levels_or_ranges(tmp_path: Path, speeds: tuple[float, ...], stored: object) -> None:
    data_set = write_machine(tmp_path / "m")
    found = collect_labelled(write_service(tmp_path / "s", speeds=speeds), data_set, CollectionChoices())
    assert found.added[0].conditions == {"speed": stored}
    again = DataSet.load(tmp_path / "m")
    assert again.read(again.about.recordings[-1]).conditions["speed"].shape == (4 * RATE,)


def test_signal_that_was_kept_is_collected_together_with_that_of_the_journal(tmp_path: Path) -> None:
    service, data_set = write_service(tmp_path / "s", segment_bytes=4000), write_machine(tmp_path / "m")
    machine = service / "machines" / "press-1"
    oldest = sorted((machine / "journal").glob("*.journal"))[:2]
    (machine / "kept").mkdir()
    for segment in oldest:
        segment.rename(machine / "kept" / segment.name)
    found = collect_labelled(service, data_set, GIVEN)
    (added,) = found.added
    assert (found.seconds, found.left_out) == (4.0, ())
    whole = made_signal("cracked", 600, seconds=6.0)
    np.testing.assert_array_equal(found.data_set.read(added).signal, whole[:, round(RATE) : round(5 * RATE)])


def test_a_sensor_fault_divides_the_recording(tmp_path: Path) -> None:
    samples = made_signal("cracked", 600, seconds=8.0)
    samples[0, round(4.5 * RATE)] = np.nan
    service = write_service(tmp_path / "s", seconds=8.0, samples=samples, end=6.0)
    found = collect_labelled(service, write_machine(tmp_path / "m"), GIVEN)
    assert len(found.added) == 2
    assert len({entry.file for entry in found.added}) == 2
    assert found.seconds == 6.0 - 1 / RATE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "mm/s"}, "channel x in mm/s; the data set has it in g"),
        ({"rate": 2 * RATE}, "512 Hz; the data set has 256 Hz"),
        ({"end": 1.0}, "a piece of 1.0 s is too short"),
    ],
)
def test_what_does_not_fit_is_left_out(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    service = write_service(tmp_path / "s", **settings)  # type: ignore[arg-type]
    found = collect_labelled(service, write_machine(tmp_path / "m"), GIVEN)
    assert found.added == ()
    assert any(message in text for text in found.left_out)


def test_samples_that_are_gone_are_reported(tmp_path: Path) -> None:
    service = write_service(tmp_path / "s", end=60.0)
    found = collect_labelled(service, write_machine(tmp_path / "m"), GIVEN)
    assert (len(found.added), found.seconds) == (1, 5.0)
    assert "55.0 s of it are no longer in the service" in found.left_out[0]


def test_runs_stay_runs_and_recordings_may_be_for_tests(tmp_path: Path) -> None:
    data_set = write_machine(tmp_path / "m", runs=2)
    found = collect_labelled(write_service(tmp_path / "s"), data_set, replace(GIVEN, for_tests=True))
    (entry,) = found.added
    assert (entry.unit, entry.run, entry.split) == (None, "press-1 2023-11-14", "test")


def test_only_the_chosen_machine_is_collected(tmp_path: Path) -> None:
    service, data_set = write_service(tmp_path / "s"), write_machine(tmp_path / "m")
    assert collect_labelled(service, data_set, replace(GIVEN, machine="other")).added == ()
    assert collect_labelled(service, data_set, replace(GIVEN, machine="press-1", unit="U7")).added[0].unit == "U7"


def test_a_later_label_that_contradicts_is_reported(tmp_path: Path) -> None:
    service, data_set = write_service(tmp_path / "s"), write_machine(tmp_path / "m")
    grown = collect_labelled(service, data_set, GIVEN).data_set
    with Store(service / "store.sqlite") as store:
        store.add(100, 0, Label("press-1", BEGIN + 20, "ann", "worn", BEGIN + 1, BEGIN + 5))
    found = collect_labelled(service, grown, GIVEN)
    assert found.added == ()
    assert "is cracked in the data set; if that is wrong, change its class" in found.left_out[0]
