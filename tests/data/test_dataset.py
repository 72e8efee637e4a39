from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import MACHINE_FILE
from cgsa.data.importing.steady import plan_steady_state
from cgsa.data.importing.write import write_data_set
from cgsa.data.library import open_library
from cgsa.data.scenario import SegmentSelection
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.errors import DataError
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows
from tests.data.made_machine import RATE, made_signal, write_machine

BLDC = Path(os.environ.get("CGSA_DATA", "../shared/data")) / "bldc_iq"


def test_a_recording_has_its_class_conditions_and_mean(tmp_path: Path) -> None:
    data_set = write_machine(tmp_path)
    recording = next(data_set.recordings())
    np.testing.assert_array_equal(recording.signal, made_signal("healthy", 600))
    assert (recording.label, recording.sample_rate, recording.units) == ("healthy", RATE, ("g", "g"))
    assert recording.conditions["speed"].tolist() == [600.0] * recording.samples
    np.testing.assert_array_equal(recording.mean, recording.signal.mean(axis=1, dtype=np.float64))


def test_it_is_the_library_of_its_own_scenario(tmp_path: Path) -> None:
    data_set = write_machine(tmp_path, runs=2, test_speeds=[1200])
    segments = data_set.scenario().training_segments(data_set)
    assert [(one.machine, one.label, one.recording.conditions["speed"][0]) for one in segments] == [
        (machine, label, speed) for machine in (1, 2) for label in (0, 1) for speed in (600, 900)
    ]


def test_some_specimens_may_be_kept_out_of_training(tmp_path: Path) -> None:
    scenario = write_machine(tmp_path, runs=3).scenario()
    library = open_library(tmp_path, scenario, train_on=[1, 3])
    assert list(library.specimens()) == [1, 3]
    assert list(library.specimens_of("worn", "speed 600 rpm")) == [1, 3]
    with pytest.raises(DataError, match="no specimen 7 to train on; it has 1, 2, 3"):
        open_library(tmp_path, scenario, train_on=[7])


def test_a_listed_file_must_exist(tmp_path: Path) -> None:
    write_machine(tmp_path)
    (tmp_path / "recordings" / "worn_600rpm_1.parquet").unlink()
    with pytest.raises(
        DataError, match=r"1 files that it lists do not exist, such as recordings/worn_600rpm_1\.parquet"
    ):
        DataSet.load(tmp_path)


def test_a_folder_without_its_file_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"no {MACHINE_FILE} in it; expected a data set"):
        DataSet.load(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        DataSet.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("sample_rate = 256.0", "sample_rate = 512.0", "256 Hz; machine.toml states 512 Hz"),
        ('unit = "g"', 'unit = "V"', "channel x is in g; machine.toml states V"),
        ('name = "y"', 'name = "z"', "no channel 'z'; it has x, y"),
        ("speed = 600.0", "speed = [500, 700]", "no trace of the measured condition 'speed'; it has none"),
    ],
)
def test_a_recording_must_be_as_the_file_says(tmp_path: Path, old: str, new: str, problem: str) -> None:
    write_machine(tmp_path)
    path = tmp_path / MACHINE_FILE
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError) as error:
        next(DataSet.load(tmp_path).recordings())
    assert problem in str(error.value)


def test_a_class_without_training_recordings_is_noted(tmp_path: Path) -> None:
    data_set = write_machine(tmp_path)
    kept = data_set.for_testing([one for one in data_set.selected if one.entry.label == "worn"])
    assert kept.notes == ("no recording to train on of worn; left out",)
    assert data_set.notes == ()


def test_a_single_operating_condition_has_a_name(tmp_path: Path) -> None:
    assert write_machine(tmp_path / "several").only_condition is None
    single = write_machine(tmp_path / "single", speeds=[600])
    assert single.only_condition == "speed 600 rpm"
    entries = tuple(replace(one, conditions={"speed": [0.0, 600.0]}) for one in single.about.recordings)
    assert replace(single, about=replace(single.about, recordings=entries)).only_condition is None


@pytest.mark.skipif(not BLDC.is_dir(), reason="set CGSA_DATA to a folder with the real recordings bldc_iq")
def test_a_model_is_that_of_the_steady_state_library_to_the_bit(tmp_path: Path) -> None:
    """One repetition of each class at two speeds, as the recommended profile reads them."""
    data_set = write_data_set(plan_steady_state(BLDC), tmp_path / "machine").data_set.restricted_to([1])
    library = SteadyStateLibrary(BLDC, train_on=[1])
    scenario = data_set.scenario()
    scenario = replace(scenario, offline=scenario.offline[:2])

    def renamed(cut: SegmentSelection) -> SegmentSelection:
        """Return the cut with the name that the steady-state library has for the run."""
        return replace(cut, run=f"{int(cut.name.split()[1]):04d}rpm")

    same = replace(scenario, offline=tuple(map(renamed, scenario.offline)))
    profile = Profile.load("recommended")
    [ours] = train(scenario, profile, training_windows(scenario, profile, data_set))
    [theirs] = train(same, profile, training_windows(same, profile, library))
    assert ours.manifest == theirs.manifest
    assert ours.training == theirs.training
    for name, tensor in tensors(ours).items():
        assert torch.equal(tensor, tensors(theirs)[name]), name


def tensors(bundle: ModelBundle) -> dict[str, torch.Tensor]:
    return bundle._tensors()
