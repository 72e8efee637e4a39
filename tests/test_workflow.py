from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.config import parse_assignments
from cgsa.data.equal_samples import usual_equal_samples
from cgsa.data.library import FolderLibrary
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Segment, WindowSpec
from cgsa.errors import ConfigError, DataError, LeakError, UnknownNameError
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.metrics.stream import score
from cgsa.nn.bundle import ModelBundle
from cgsa.offline.portfolio import choose_features
from cgsa.profile import Profile, builtin_profiles, profile_for, profile_of, remember_profile
from cgsa.workflow import (
    check_candidates,
    diagnose,
    run_method,
    segments_for,
    stream_windows,
    train,
    train_candidates,
    training_windows,
)
from tests.machines import BOTH, SCENARIO, ToyLibrary, TwoConditions, bundle, noise_recording, speed_bundle

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
    assert set(builtin_profiles()) == {"healthy_only", "paper", "quick", "recommended", "robust"}


def test_quick_profile_is_less_of_the_same() -> None:
    quick, paper = Profile.load("quick"), Profile.load("paper")
    assert quick.network == paper.network
    assert quick.window == paper.window
    assert quick.stream == paper.stream
    assert quick.train.epochs < paper.train.epochs
    assert quick.train.step > paper.train.step


def test_profiles_report_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match="unknown profile 'papr'; did you mean 'paper'\\? known: healthy_only, paper, quick"
    ):
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


class ExactTorque(ToyLibrary):
    """The toy machine with a torque that has no noise: what is held is one level."""

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        found = super().get(state, run, severity=severity, specimen=specimen)
        torque = found.conditions["torque"]
        return replace(found, conditions={"torque": np.where(abs(torque - 10) < 1, np.float32(10), torque)})


STEADY = replace(SCENARIO, offline=SCENARIO.offline[1:])
"""A short training: two seconds of every class, of which half a second may be held out."""
SHORT_WINDOWS = {"ensemble": {"seconds": 0.3}}


def train_toy_ensemble() -> ModelBundle:
    profile = Profile.load("recommended", SHORT_WINDOWS)
    [trained] = train(STEADY, profile, training_windows(STEADY, profile, ExactTorque(numbers=(1,))))
    return trained


@pytest.fixture(scope="module")
def trained_ensemble() -> ModelBundle:
    return train_toy_ensemble()


def test_the_recommended_profile_trains_and_uses_an_ensemble(trained_ensemble: ModelBundle) -> None:
    profile, manifest = Profile.load("recommended", SHORT_WINDOWS), trained_ensemble.manifest
    assert profile.default_objective == "ensemble"
    assert profile.default_method == "commissioning"
    assert manifest.window == WindowSpec(256, 64)
    assert manifest.ensemble == choose_features(SCENARIO.sample_rate, 2, manifest.window)
    assert manifest.objective == "ensemble"
    assert manifest.calibration is not None
    assert manifest.calibration.held_out_accuracy > 0.9
    windows = stream_windows(trained_ensemble, SCENARIO, "wear", ToyLibrary())
    for method in ("source", "commissioning"):
        assert score(run_method(trained_ensemble, windows, method, profile)).average_accuracy > 0.8


def test_training_an_ensemble_again_gives_the_same_bits_for_every_seed(trained_ensemble: ModelBundle) -> None:
    profile = Profile.load("paper", SHORT_WINDOWS)
    windows = training_windows(STEADY, profile, ExactTorque(numbers=(1,)), objective="ensemble")
    again = train(STEADY, profile, windows, objective="ensemble", seeds=[0, 3])
    assert [one.manifest.seed for one in again] == [0, 3]
    first = trained_ensemble._tensors()
    for one in again:
        assert replace(one.manifest, seed=0) == trained_ensemble.manifest
        tensors = one._tensors()
        assert tensors.keys() == first.keys()
        assert all(torch.equal(tensors[name], first[name]) for name in first)


def test_an_ensemble_is_saved_as_a_candidate_even_if_nothing_can_be_held_out(tmp_path: Path) -> None:
    """Windows of the usual length leave none within the last quarter of two seconds."""
    candidates = {"recommended": Profile.load("recommended")}
    selection = train_candidates(STEADY, candidates, ExactTorque(numbers=(1,)), tmp_path / "model")
    assert selection.best == "recommended"
    assert selection.accuracy == {"recommended": None}
    loaded = ModelBundle.load(tmp_path / "model")
    assert loaded.manifest == selection.bundle.manifest
    assert loaded.trained_on() == selection.bundle.trained_on()
    windows = stream_windows(loaded, SCENARIO, "wear", ToyLibrary())
    trace = run_method(loaded, windows, "commissioning", candidates["recommended"])
    assert score(trace).average_accuracy > 0.8


def test_a_network_is_compared_with_an_ensemble_only_if_calibrated(tmp_path: Path) -> None:
    candidates = {"recommended": Profile.load("recommended"), "paper": Profile.load("paper")}
    with pytest.raises(ConfigError, match=r"needs train\.calibrate=true"):
        check_candidates(candidates, tmp_path / "model")
    check_candidates({**candidates, "paper": Profile.load("robust")}, tmp_path / "model")


def test_an_ensemble_may_not_be_evaluated_on_its_training(trained_ensemble: ModelBundle) -> None:
    leaking = replace(SCENARIO, online=(replace(SCENARIO.online[2], level=10.0),))
    with pytest.raises(LeakError, match="toy/1/wear/low: samples"):
        stream_windows(trained_ensemble, leaking, "wear", ToyLibrary())


def test_every_model_names_the_profile_that_suits_it(trained_ensemble: ModelBundle) -> None:
    assert profile_of(trained_ensemble.manifest) == "recommended"
    assert profile_of(bundle().manifest) == "robust"
    assert profile_of(replace(bundle().manifest, calibration=None)) == "paper"


def test_a_model_remembers_the_profile_of_its_training() -> None:
    changed = Profile.load("recommended", {"stream": {"batch_size": 3}})
    model = remember_profile(bundle(), changed, changed.default_objective)
    assert profile_for(model) == changed
    assert profile_for(model, changes={"stream": {"batch_size": 5}}).stream.batch_size == 5
    assert profile_for(model, "quick") == Profile.load("quick")
    assert profile_for(bundle()) == Profile.load("robust")
    # A model of another objective needs another method than that of the profile.
    assert profile_for(remember_profile(bundle(), changed, "plain")) == Profile.load("robust")


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


def test_recordings_hand_over_their_conditions_on_request() -> None:
    recording = ToyLibrary(seed=5).get("wear", "low", severity="H", specimen=1)
    config = DiagnosisConfig("commissioning", {"healthy_start": True}, batch_size=8)
    told, untold = (
        [batch.event.probabilities for batch in diagnose(signal, [recording], known_conditions=known)]
        for known in (True, False)
        for signal in [SignalDiagnoser(speed_bundle(), config)]
    )
    assert len(told) == len(untold)
    assert told != untold
    with pytest.raises(DataError, match="has the conditions none; the model knows torque"):
        list(
            diagnose(
                SignalDiagnoser(speed_bundle(), config), [replace(recording, conditions={})], known_conditions=True
            )
        )


def test_networks_read_centred_recordings_and_ensembles_what_was_measured() -> None:
    recording = replace(noise_recording(), mean=np.array([0.5, -2.0]))
    for objective, expected in (("cal", recording.centred()), ("ensemble", recording), ("healthy_only", recording)):
        (read,) = segments_for(objective, [Segment(recording, 0, 0)])
        assert np.array_equal(read.recording.signal, expected.signal)
