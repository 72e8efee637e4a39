from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import cgsa
from cgsa.data.recording import Recording
from cgsa.data.scenario import SegmentSelection
from cgsa.errors import CgsaError, DataError
from cgsa.estimators.classifier import CgsaClassifier
from cgsa.online.source import FrozenSource
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows
from tests.estimators.toy import QUICK, fitted, labelled
from tests.machines import CLASSES, RATE, SCENARIO, speed_bundle

SIGNALS, LABELS, TORQUES, UNITS = labelled()


def quick() -> CgsaClassifier:
    return CgsaClassifier(sample_rate=RATE, changes=QUICK)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_recordings_are_classified_by_the_recommended_ensemble() -> None:
    found = fitted()
    assert found.objective_ == "ensemble"
    assert found.classes_.tolist() == ["health", "wear"]
    assert found.score(SIGNALS, LABELS) == 1.0
    np.testing.assert_allclose(found.predict_proba(SIGNALS).sum(axis=1), 1)
    assert found.n_features_in_ == 2


def test_conditions_and_units_are_held_out_of_training() -> None:
    assessment = fitted().bundle_.manifest.assessment
    assert assessment is not None
    assert {part.kind for part in assessment.results} == {"level", "specimen"}
    assert fitted().held_out_accuracy_ is not None


def test_lists_of_arrays_and_recordings_are_classified_alike() -> None:
    arrays = [signal.T for signal in SIGNALS]
    recordings = [Recording(signal, RATE, ("channel_1", "channel_2"), ("", "")) for signal in SIGNALS]
    expected = fitted().predict_proba(SIGNALS)
    np.testing.assert_array_equal(fitted().predict_proba(arrays), expected)
    np.testing.assert_array_equal(fitted().predict_proba(recordings), expected)
    np.testing.assert_array_equal(fitted().predict_proba([arrays[0][:400]]).shape, (1, 2))


def test_what_was_trained_is_said_where_recordings_are_too_short() -> None:
    found = CgsaClassifier(sample_rate=RATE).fit(SIGNALS[:, 0, :40], LABELS)
    assert found.objective_ == "plain"
    assert "the shortest recording has 40 samples, and averaged spectra need 128" in found.notes_[0]
    assert found.held_out_accuracy_ is None
    assert found.n_features_in_ == 40


def test_few_recordings_are_enough_and_leave_the_accuracy_unknown() -> None:
    found = CgsaClassifier().fit(SIGNALS[:4:2, :, :300], LABELS[:4:2])
    assert found.objective_ == "ensemble"
    assert found.held_out_accuracy_ is None
    assert [note.partition(":")[0] for note in found.notes_] == [
        "sample_rate is unknown",
        "nothing could be held out of so few recordings",
    ]


@pytest.mark.parametrize(
    ("labels", "healthy", "expected"),
    [
        (["broken", "Normal"], None, "Normal"),
        (["a", "b"], None, "a"),
        (["a", "b"], "b", "b"),
        ([0, 1], 1, 1),
    ],
)
def test_the_healthy_label_is_stated_or_recognised(labels: list[object], healthy: object, expected: object) -> None:
    found = quick().set_params(healthy=healthy).fit(SIGNALS, np.array(labels * 4))
    assert found.healthy_ == expected
    assert any("pass healthy=" in note for note in found.notes_) == (healthy is None and labels == ["a", "b"])
    assert found.bundle_.manifest.classes[0] == str(expected)


def test_probabilities_are_in_the_order_of_the_labels() -> None:
    renamed = np.where(LABELS == "health", "normal", "broken")
    found = CgsaClassifier(sample_rate=RATE).fit(SIGNALS, renamed)
    assert found.classes_.tolist() == ["broken", "normal"]
    assert found.bundle_.manifest.classes == ("normal", "broken")
    np.testing.assert_array_equal(found.predict(SIGNALS), renamed)
    np.testing.assert_array_equal(found.classes_[found.predict_proba(SIGNALS).argmax(axis=1)], renamed)


def test_mistakes_are_said_with_what_would_be_right() -> None:
    with pytest.raises(CgsaError, match="y has 1 class, wear; expected at least two"):
        quick().fit(SIGNALS, ["wear"] * 8)
    with pytest.raises(CgsaError, match="healthy='fine'; expected one of the labels health, wear"):
        quick().set_params(healthy="fine").fit(SIGNALS, LABELS)
    with pytest.raises(CgsaError, match=r"expected \(recordings, samples\) or \(recordings, channels, samples\)"):
        quick().fit(SIGNALS[..., None], LABELS)
    with pytest.raises(DataError, match="500 Hz; expected sample_rate=1000"):
        fitted().predict([Recording(SIGNALS[0], 500.0, ("channel_1", "channel_2"), ("", ""))])
    with pytest.raises(NotFittedError):
        quick().to_bundle()


def test_a_recording_at_another_rate_is_refused() -> None:
    recordings = [Recording(signal, RATE, ("a", "b"), ("g", "g")) for signal in SIGNALS]
    found = quick().set_params(sample_rate=None).fit(recordings, LABELS)
    with pytest.raises(DataError, match="500 Hz; the model was trained at 1000 Hz"):
        found.predict([replace(recordings[0], sample_rate=500.0)])


def test_recordings_in_other_units_are_refused() -> None:
    recordings = [Recording(signal, RATE, ("a", "b"), ("g", "g")) for signal in SIGNALS]
    other = replace(recordings[0], units=("g", "mm/s"))
    with pytest.raises(DataError, match="recording 0, memory: b in mm/s instead of g; convert its samples"):
        quick().fit(recordings, LABELS).predict([other])
    with pytest.raises(DataError, match=r"b in .* instead of"):
        quick().fit([*recordings, other], [*LABELS, "wear"])
    with pytest.raises(DataError, match="mixed channels"):
        quick().fit([*recordings, other.select(["a"])], [*LABELS, "wear"])


def test_clones_have_the_parameters_and_nothing_learnt() -> None:
    copied = clone(fitted())
    assert copied.get_params() == fitted().get_params()
    assert not hasattr(copied, "bundle_")


def test_a_pickled_classifier_holds_the_files_of_a_bundle_and_no_module() -> None:
    packed = pickle.dumps(fitted())
    assert b"torch" not in packed
    found = pickle.loads(packed)  # noqa: S301 - packed above
    np.testing.assert_array_equal(found.predict_proba(SIGNALS), fitted().predict_proba(SIGNALS))


def test_the_saved_model_is_a_machine(tmp_path: Path) -> None:
    fitted().save(tmp_path / "model")
    machine = cgsa.load(tmp_path / "model")
    assert machine.predict(SIGNALS[-1]).verdict[-1] == LABELS[-1]


def test_a_model_without_discriminator_is_a_machine_too() -> None:
    machine = cgsa.Machine(quick().fit(SIGNALS, LABELS).to_bundle())
    assert machine.config.method == "source"
    assert len(machine.predict(SIGNALS[0]))


def test_known_speeds_of_recordings_are_used() -> None:
    found = CgsaClassifier(sample_rate=RATE, channels=["a", "b"])
    found.classes_, found._order = np.array(CLASSES), [0, 1, 2]
    found._use(speed_bundle())
    known = {"torque": 1.5 * TORQUES}
    assert not np.allclose(found.predict_proba(SIGNALS), found.predict_proba(SIGNALS, conditions=known))


@pytest.mark.usefixtures("routing")
def test_leaving_conditions_out_with_routed_metadata() -> None:
    estimator = quick().set_fit_request(conditions=True, units=True)
    scores = cross_val_score(
        estimator,
        SIGNALS,
        LABELS,
        cv=LeaveOneGroupOut(),
        params={"conditions": TORQUES, "units": UNITS, "groups": TORQUES},
        error_score="raise",
    )
    assert len(scores) == 2


@pytest.mark.usefixtures("routing")
def test_lists_of_recordings_are_split_too() -> None:
    recordings = [signal.T for signal in SIGNALS]
    estimator = quick().set_fit_request(conditions=False, units=True)
    params = {"units": UNITS, "groups": UNITS}
    assert len(cross_val_score(estimator, recordings, LABELS, cv=LeaveOneGroupOut(), params=params)) == 2


@pytest.mark.usefixtures("routing")
def test_a_pipeline_and_a_grid_search() -> None:
    pipeline = make_pipeline(
        FunctionTransformer(np.ascontiguousarray), quick().set_fit_request(conditions=True, units=False)
    )
    grid = {"cgsaclassifier__changes": [{**QUICK, "train": {"step": 64, "epochs": epochs}} for epochs in (1, 2)]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(SIGNALS, LABELS, conditions=TORQUES)
    assert search.best_estimator_.predict(SIGNALS).shape == LABELS.shape


class Shelf:
    """The labelled recordings as a library: a run per torque."""

    def specimens(self) -> list[int]:
        return [1, 2]

    def specimens_of(self, state: str, run: str) -> list[int]:
        return self.specimens()

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        chosen = (state == LABELS) & (float(run) == TORQUES) & (f"unit {specimen}" == UNITS)
        [signal] = SIGNALS[chosen]
        torque = np.full(signal.shape[1], float(run), np.float32)
        return Recording(signal, RATE, ("a", "b"), ("g", "g"), {"torque": torque}, source=f"{state} {run} {specimen}")


def test_it_trains_what_the_command_trains() -> None:
    cuts = tuple(SegmentSelection(f"T{run}", run, level=float(run)) for run in ("10", "5"))
    scenario, profile = replace(SCENARIO, faults=("wear",), offline=cuts), Profile.load("recommended")
    [trained] = train(scenario, profile, training_windows(scenario, profile, Shelf()))
    recordings = [segment.recording for segment in scenario.training_segments(Shelf())]
    assert len(recordings) == len(SIGNALS)
    expected, found = trained.model.state_dict(), fitted().bundle_.model.state_dict()
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_a_prediction_is_the_mean_over_the_windows_of_each_recording() -> None:
    bundle = fitted().to_bundle()
    length, step = bundle.manifest.window.length, bundle.manifest.window.step
    recordings = [SIGNALS[0].T, SIGNALS[5].T[:400], SIGNALS[3].T[:length]]
    expected = []
    for recording in recordings:
        rows = [
            FrozenSource(bundle).predict(torch.from_numpy(recording.T[None, :, begin : begin + length].copy()))
            for begin in range(0, len(recording) - length + 1, step)
        ]
        expected.append(torch.cat(rows).double().mean(dim=0).numpy())
    np.testing.assert_allclose(fitted().predict_proba(recordings), expected, rtol=1e-5)
