from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.check.recordings import BLOCK, LabelledRecording
from cgsa.check.run import check_data
from cgsa.check.sources import of_file, recordings_below
from cgsa.check.summary import summarise_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.check.clean_set import REPETITIONS, write_set


def test_a_set_with_a_meta_file_has_classes_conditions_and_repetitions(tmp_path: Path) -> None:
    first = recordings_below(write_set(tmp_path))[0]
    assert (first.label, first.conditions, first.session) == ("health", {"speed_rpm": 900.0}, "repetition 1")
    assert len({one.session for one in recordings_below(tmp_path)}) == REPETITIONS


def test_runs_are_named_by_their_files(tmp_path: Path) -> None:
    recording = Recording(np.ones((1, 50), np.float32), 100.0, ("a",), ("g",))
    (tmp_path / "specimen_2").mkdir()
    write_parquet(recording, tmp_path / "specimen_2" / "gear_wear_H_torque_circulation_1000rpm_10Nm.parquet")
    [found] = recordings_below(tmp_path)
    assert (found.label, found.point, found.unit) == ("gear_wear", "torque_circulation_1000rpm_10Nm", "specimen 2")


def test_other_files_are_read_block_by_block(tmp_path: Path) -> None:
    rows = "\n".join(f"{number / 100},{number % 7}" for number in range(3 * 65_536))
    (tmp_path / "pump.csv").write_text(f"time,a\n{rows}\n")
    [found] = recordings_below(tmp_path)
    parts = list(found.parts())
    assert len(parts) > 1
    assert [part.offset for part in parts[:2]] == [0, parts[0].samples]
    summary = summarise_recording(found)
    assert (summary.samples, summary.sample_rate, summary.channels) == (3 * 65_536, 100.0, ("a",))


def test_a_rate_that_no_one_states_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "pump.csv").write_text("a,b\n" + "1,2\n3,4\n" * 50)
    assert "--rate" in str(summarise_recording(of_file(tmp_path / "pump.csv")).failure)
    assert summarise_recording(of_file(tmp_path / "pump.csv", 100.0)).sample_rate == 100.0


def test_a_damaged_file_stops_training_with_its_reason(tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / "wear_run1__900rpm.npz").write_bytes(b"nothing")
    [finding] = [one for one in check_data(recordings_below(tmp_path)).findings if one.check == "unreadable"]
    assert "not an .npz file" in finding.found
    assert finding.severity == "stops training"


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        recordings_below(tmp_path / "none")


def test_blocks_of_a_part_are_bounded() -> None:
    recording = Recording(np.zeros((1, 2 * BLOCK + 1), np.float32), 100.0, ("a",), ("g",))
    sizes = [block.shape[1] for block in LabelledRecording("long", lambda: (recording,)).blocks()]
    assert sizes == [BLOCK, BLOCK, 1]
