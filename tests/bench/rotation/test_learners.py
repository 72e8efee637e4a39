from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.bench.rotation.folds import rotation_folds
from cgsa.bench.rotation.learners import fitting_profile, profile_learner
from cgsa.bench.rotation.sets import steady_state_set
from cgsa.data.library import open_library
from cgsa.profile import Profile
from tests.bench.rotation.made_sets import write_profile, write_set


def test_windows_that_fit_stay_as_they_are() -> None:
    profile = Profile.load("robust")
    assert fitting_profile(profile, 3 * profile.window.length, 12_800) is profile


def test_windows_become_as_short_as_the_recordings_require() -> None:
    profile = Profile.load("paper")
    fitted = fitting_profile(profile, 523, 99.3)
    assert (fitted.window.length, fitted.window.step, fitted.train.step) == (128, 2, 2)
    assert fitted.train.reference_seconds == pytest.approx(3 * 128 / 99.3)
    assert fitted.method_settings("reference") == {"commission_seconds": pytest.approx(3 * 128 / 99.3)}
    assert fitted.network == profile.network


def test_a_profile_is_compared_with_its_own_frozen_model(tmp_path: Path) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump"))
    fold = rotation_folds(rotated)[0]
    library = open_library(rotated.folder, fold.scenario)
    profile = Profile.load(write_profile(tmp_path))
    model = profile_learner("tiny", profile).fit(fold, library, seed=3)
    assert (model.manifest.seed, model.manifest.window) == (3, profile.window)
    assert {Path(source).name for source, _, _ in model.trained_on} == {
        f"{state}__{speed}rpm_0lb.npz" for state in ("healthy", "worn", "cracked") for speed in (900, 1200)
    }
    segments = fold.scenario_of(fold.streams[0]).stream_segments(library, "worn")
    traces = dict(model.run(segments))
    assert list(traces) == ["tiny", "tiny, frozen"]
    assert traces["tiny"].accepted is not None
    assert traces["tiny, frozen"].accepted is None


def test_methods_that_use_conditions_run_a_second_time_with_them(tmp_path: Path) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump"))
    fold = rotation_folds(rotated)[0]
    library = open_library(rotated.folder, fold.scenario)
    learner = profile_learner("tiny", Profile.load(write_profile(tmp_path)), known_conditions=True)
    model = learner.fit(fold, library, seed=3)
    segments = fold.scenario_of(fold.streams[0]).stream_segments(library, "worn")
    traces = dict(model.run(segments))
    assert list(traces) == ["tiny", "tiny, frozen", "tiny, frozen, conditions known"]
    # A network has no members in orders: nothing changes.
    told, untold = traces["tiny, frozen, conditions known"], traces["tiny, frozen"]
    assert np.array_equal(told.probabilities, untold.probabilities)


def test_an_ensemble_chooses_its_windows_itself() -> None:
    profile = Profile.load("recommended")
    assert fitting_profile(profile, 100, 99.3) is profile


def test_a_profile_that_never_adapts_has_one_entry() -> None:
    profile = Profile.load("robust", {"default_method": "source"})
    assert dict(profile_learner("robust", profile).methods) == {"robust": "source"}
