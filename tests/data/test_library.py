from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.data.library import FolderLibrary, open_library
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.errors import DataError
from tests.data.test_steady_state import UNITS, write_set, write_specimens
from tests.machines import SCENARIO
from tests.toy_files import RUNS, write_toy


def test_a_folder_with_a_meta_file_is_a_set_of_steady_state_recordings(tmp_path: Path) -> None:
    library = open_library(write_set(tmp_path), SCENARIO)
    assert isinstance(library, SteadyStateLibrary)
    assert library.sample_rate == 2000


def test_the_scenario_gives_the_rate_if_a_set_does_not(tmp_path: Path) -> None:
    library = open_library(write_set(tmp_path, fs=None), replace(SCENARIO, sample_rate=1234.0))
    assert library.notes == ("meta.json states no sample rate; 1234 Hz assumed",)


def test_training_on_some_units_of_a_set_of_steady_state_recordings(tmp_path: Path) -> None:
    folder = write_specimens(tmp_path, UNITS)
    assert list(open_library(folder, SCENARIO).specimens()) == [1, 2, 3]
    assert list(open_library(folder, SCENARIO, train_on=[3]).specimens_of("healthy", "600rpm")) == [3]


def test_any_other_folder_has_runs(tmp_path: Path) -> None:
    folder = write_toy(tmp_path) / "data" / "toy"
    assert isinstance(open_library(folder, SCENARIO), FolderLibrary)
    assert list(open_library(folder, SCENARIO, train_on=[3]).specimens()) == [3]


def test_a_folder_of_runs_must_be_complete(tmp_path: Path) -> None:
    """Every specimen is expected to have every run, so that a missing file is an error and not less training."""
    library = open_library(write_toy(tmp_path) / "data" / "toy", SCENARIO, train_on=[1, 3])
    assert list(library.specimens_of("health", RUNS["low"])) == [1, 3]
    with pytest.raises(DataError, match="of health, specimen 3; available for that run: nothing"):
        library.get("health", RUNS["low"], severity="H", specimen=3)


def test_error_for_an_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no run found; expected files such as gear_wear_.* or a meta\.json"):
        open_library(tmp_path, SCENARIO)
