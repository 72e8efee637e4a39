from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cgsa.check import CHECKS, Check, DataSummary, Finding
from cgsa.check.data_set import summarise_data
from cgsa.check.run import check_data, checks_before_training, find_faults, require_trainable
from cgsa.check.summary import summarise_recording
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.check.clean_set import clean_set


def test_a_clean_set_may_be_trained_on() -> None:
    assert require_trainable(clean_set(), "advice").stopping == ()


def test_the_error_says_where_what_and_how_to_go_on() -> None:
    first, *others = clean_set()
    doubled = [first, *(replace(one, parts=first.parts) if one.label == "wear" else one for one in others[:14])]
    with pytest.raises(DataError) as error:
        require_trainable(doubled, "use --anyway")
    assert first.name in str(error.value)
    assert "same samples" in str(error.value)
    assert str(error.value).endswith("use --anyway")


def test_before_training_no_spectrum_is_measured() -> None:
    assert all("spectrum" not in CHECKS[name].needs for name in checks_before_training())


def test_a_check_of_ones_own_runs_like_the_others() -> None:
    def find_loud(data: DataSummary) -> Iterator[Finding]:
        for one in data.readable:
            if one.measured[0].statistics.deviation > 4:
                yield Finding("note", f"{one.name} is loud", "It hurts", "Turn it down", (one.name,))

    data = summarise_data(clean_set()[:1] + clean_set()[-1:], frozenset())
    result = find_faults(data, {"loud": Check("loud recordings", find_loud)})
    assert {one.check for one in result.findings} <= {"loud"}


def test_every_check_copes_with_no_recordings_and_with_one() -> None:
    assert check_data([]).findings == ()
    assert check_data(clean_set()[:1]).stopping == ()


def test_every_check_copes_with_a_recording_of_one_sample() -> None:
    tiny = Recording(np.ones((1, 1), np.float32), 100.0, ("a",), ("g",), label="health")
    short = replace(clean_set()[0], parts=lambda: (tiny,))
    assert check_data([short, *clean_set()[1:]]).stopping


def test_recordings_of_different_layout_are_named() -> None:
    one = clean_set()[0]
    [recording] = one.parts()
    slower = replace(one, parts=lambda: (replace(recording, sample_rate=500.0),))
    found = check_data([slower, *clean_set()[1:6]], ["channel_layout"]).findings
    assert [finding.recordings for finding in found] == [(one.name,)]


def test_a_machine_that_starts_has_no_offset_jump() -> None:
    rng = np.random.default_rng(0)
    pulses = np.concatenate([rng.normal(0, 0.01, 2000), rng.normal(1, 2, 4000)]).astype(np.float32)
    spoilt = replace(clean_set()[0], parts=lambda: (Recording(pulses[None], 1000.0, ("a",), ("g",)),))
    assert check_data([spoilt, *clean_set()[1:]], ["offset_jump"]).findings == ()


def test_conditions_that_move_are_not_called_steady() -> None:
    torque = np.linspace(0, 10, 6000, dtype=np.float32)
    [recording] = clean_set()[0].parts()
    moving = replace(
        clean_set()[0], parts=lambda: (replace(recording, conditions={"torque": torque}),), conditions=None
    )
    assert not summarise_recording(moving).steady
    assert summarise_recording(clean_set()[0]).steady
