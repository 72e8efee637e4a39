from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.config import parse_assignments
from cgsa.data.equal_samples import usual_equal_samples
from cgsa.data.library import FolderLibrary
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError, DataError, LeakError, UnknownNameError
from cgsa.metrics.stream import score
from cgsa.profile import Profile, builtin_profiles
from cgsa.workflow import run_method, stream_windows, train, training_windows
from tests.machines import BOTH, SCENARIO, ToyLibrary, TwoConditions

TOY_PROFILE = [
    "window.length=32",
    "window.step=4",
    "network.hidden=[24, 12, 8]",
    "network.tap=8",
    "train.step=8",
    "train.epochs=8",
    "train.batch_size=64",
    "objective.cal.lr=3e-3",
]


@pytest.fixture
def profile() -> Profile:
    return Profile.load("paper", parse_assignments(TOY_PROFILE))


def test_paper_profile_is_the_defaults() -> None:
    assert Profile.load("paper") == Profile()
    assert set(builtin_profiles()) == {"paper", "quick", "recommended", "robust"}


def test_quick_profile_is_less_of_the_same() -> None:
    quick, paper = Profile.load("quick"), Profile.load("paper")
    assert quick.network == paper.network
    assert quick.window == paper.window
    assert quick.stream == paper.stream
    assert quick.train.epochs < paper.train.epochs
    assert quick.train.step > paper.train.step


def test_profiles_report_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown profile 'papr'; known: paper, quick"):
        Profile.load("papr")
    with pytest.raises(ConfigError, match=r"train\.epoch: no such setting; did you mean 'epochs'"):
        Profile.load("paper", {"train": {"epoch": 3}})
    with pytest.raises(ConfigError, match="batch_size 0"):
        Profile.load("paper", {"stream": {"batch_size": 0}})
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nepochs = 3\n[method.cgsa]\ntau = 0.1\n")
    mine = Profile.load(path)
    assert mine.train.epochs == 3
    assert mine.method_settings("cgsa") == {"tau": 0.1}
    assert mine.method_settings("source") == {}
    with pytest.raises(ConfigError, match=r"method\.cgsa: expected a table"):
        Profile.load("paper", {"method": {"cgsa": 3}}).method_settings("cgsa")


@pytest.mark.parametrize(("scenario", "library"), [(SCENARIO, ToyLibrary()), (BOTH, TwoConditions())])
def test_from_recordings_to_an_adapting_diagnosis(profile: Profile, scenario: Scenario, library: ToyLibrary) -> None:
    learnt = training_windows(scenario, profile, library)
    [bundle] = train(scenario, profile, learnt)
    assert bundle.manifest.usual_equal_samples == usual_equal_samples(
        (one.numpy() for one in learnt.signals()), profile.window
    )
    windows = stream_windows(bundle, scenario, "wear", library)
    for method in ("source", "cgsa"):
        assert score(run_method(bundle, windows, method, profile)).average_accuracy > 0.8


def test_method_settings_come_from_profile_and_call(profile: Profile) -> None:
    library = ToyLibrary()
    [bundle] = train(
        SCENARIO, replace(profile, train=replace(profile.train, epochs=1)), training_windows(SCENARIO, profile, library)
    )
    windows = stream_windows(bundle, SCENARIO, "wear", library)
    trace = run_method(bundle, windows, "cgsa", replace(profile, method={"cgsa": {"queue": 10**6}}))
    assert trace.accepted is not None
    assert not trace.accepted.any()
    trace = run_method(bundle, windows, "cgsa", profile, settings={"by_residual": False, "min_confidence": 0.0})
    assert trace.accepted is not None
    assert trace.accepted.all()


def test_a_stream_over_trained_samples_is_refused(profile: Profile) -> None:
    library = ToyLibrary()
    [bundle] = train(SCENARIO, profile, training_windows(SCENARIO, profile, library))
    leaking = replace(SCENARIO, online=(replace(SCENARIO.online[2], level=10.0),))
    with pytest.raises(LeakError, match="toy/1/wear/low: samples"):
        stream_windows(bundle, leaking, "wear", library)


def test_a_bundle_of_another_machine_is_refused(profile: Profile) -> None:
    library = ToyLibrary()
    [bundle] = train(SCENARIO, profile, training_windows(SCENARIO, profile, library))
    with pytest.raises(ConfigError, match="scenario gearbox has health, gear_wear"):
        stream_windows(bundle, Scenario.load("gearbox"), "gear_wear", library)


def test_a_folder_is_a_library(tmp_path: Path) -> None:
    toy = ToyLibrary()
    for specimen in (1, 2):
        for state in ("health", "wear_H", "crack_L"):
            recording = toy.get(state.split("_")[0], "low", severity="H", specimen=specimen)
            write_parquet(
                recording, tmp_path / f"specimen_{specimen}" / f"{state}_torque_circulation_1000rpm_10Nm.parquet"
            )
    (tmp_path / "notes.txt").write_text("junk")
    library = FolderLibrary(tmp_path)
    assert list(library.specimens()) == [1, 2]
    assert list(FolderLibrary(tmp_path, train_on=[2]).specimens()) == [2]
    run = "torque_circulation_1000rpm_10Nm"
    assert library.get("wear", run, severity="H", specimen=2).label == "wear"
    assert library.get("health", run, severity="H", specimen=1).label == "health"
    assert library.get("crack", run, severity="H", specimen=1).label == "crack"
    with pytest.raises(DataError, match="of rust, specimen 1; available for that run: crack_L, health, wear_H"):
        library.get("rust", run, severity="H", specimen=1)


def test_an_empty_folder_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run found"):
        FolderLibrary(tmp_path)
