from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from river import base, evaluate, metrics
from river.checks import clf, common

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError
from cgsa.estimators.machine import Machine
from cgsa.estimators.stream_classifier import Sample, StreamClassifier
from tests.estimators.toy import machine
from tests.machines import RATE, ensemble_bundle
from tests.online.models import trained_bundle
from tests.starts import FOOLING, steady

STRANGE = steady("health", strange=2.0)


def rows(samples: FloatArray) -> Iterator[Sample]:
    for a, b in samples.T.tolist():
        yield {"a": a, "b": b}


def learnt(samples: FloatArray, label: str | None = None) -> StreamClassifier:
    found = StreamClassifier(machine())
    for x in rows(samples):
        found.learn_one(x, label)
    return found


class Samples:
    """Labelled samples, as river's checks take them."""

    def __iter__(self) -> Iterator[tuple[Sample, str]]:
        for x in rows(steady("health")[:, :300]):
            yield x, "health"
        for x in rows(steady("wear")[:, :300]):
            yield x, "wear"


def test_single_samples_tell_what_blocks_tell() -> None:
    found = learnt(steady("wear"))
    [*_, last] = machine().stream([steady("wear")])
    assert found.last is not None
    assert found.last.to_dict() == last.to_dict()
    assert found.predict_one() == found.alarm == "wear"
    assert max(found.predict_proba_one(), key=lambda name: found.predict_proba_one()[name]) == "wear"


def test_before_the_first_window_nothing_is_known() -> None:
    found = StreamClassifier(machine())
    assert found.predict_one({"a": 0.0, "b": 0.0}) is None
    assert found.predict_proba_one() == dict.fromkeys(("health", "wear", "crack"), 1 / 3)
    assert found.alarm is None


def test_labelled_healthy_samples_commission_the_machine() -> None:
    found = learnt(STRANGE)
    assert not found.machine.commissioned
    assert found.predict_one() == "wear"
    found = learnt(STRANGE, "health")
    assert found.machine.commissioned
    assert found.predict_one() == "health"


def test_labels_of_faults_change_nothing() -> None:
    labelled, unlabelled = learnt(STRANGE, "wear"), learnt(STRANGE)
    assert labelled.last is not None
    assert unlabelled.last is not None
    assert labelled.last.to_dict() == unlabelled.last.to_dict()


def test_refused_healthy_samples_leave_a_note() -> None:
    found = learnt(FOOLING["standstill"][0], "health")
    assert not found.machine.commissioned
    assert "no reference was taken, standstill" in found.notes[0]


def test_a_machine_that_takes_its_reference_itself_needs_no_label() -> None:
    found = StreamClassifier(Machine(trained_bundle()))
    for x in rows(steady("health")):
        found.learn_one(x)
    assert found.machine.commissioned


def test_a_missing_channel_costs_its_windows_and_other_keys_nothing() -> None:
    found = StreamClassifier(machine())
    for x in rows(steady("wear")):
        found.learn_one({**x, "temperature": 20.0})
    assert found.last is not None
    assert set(found.last.quality) == {"good"}
    for a, _ in steady("wear").T.tolist():
        found.learn_one({"a": a})
    assert set(found.last.quality) == {"not a number"}
    assert set(found.predict_proba_one().values()) == {1 / 3}


def test_unknown_labels_and_texts_are_refused() -> None:
    found = StreamClassifier(machine())
    with pytest.raises(DataError, match="label 'rust'; the model knows health, wear, crack"):
        found.learn_one({"a": 0.0, "b": 0.0}, "rust")
    with pytest.raises(DataError, match="channel b: '1'; expected a number"):
        found.learn_one({"a": 0.0, "b": "1"})  # type: ignore[dict-item]
    assert math.isclose(RATE, found.machine.sample_rate)


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    ensemble_bundle().save(tmp_path / "model")
    assert StreamClassifier(tmp_path / "model").machine.classes == ("health", "wear", "crack")


def test_it_runs_in_the_progressive_evaluation_of_river() -> None:
    labelled: list[Any] = [(x, state) for state in ("health", "wear") for x in rows(steady(state))]
    found = evaluate.progressive_val_score(labelled, RiverClassifier(machine()), metrics.Accuracy())  # type: ignore[no-untyped-call]
    assert found.get() > 0.8


class RiverClassifier(StreamClassifier, base.Classifier):  # type: ignore[misc] # river takes any keys
    """The same under river's base class, as ``docs/python.md`` shows it."""


CHECKS = (
    common.check_learn_one,
    common.check_pickling,
    common.check_shuffle_features_no_impact,
    common.check_emerging_features,
    common.check_disappearing_features,
    common.check_radically_disappearing_features,
    common.check_predict_one_pure,
    common.check_predict_one_before_any_learn,
    common.check_no_state_aliasing_with_input,
    common.check_clone_is_independent,
    clf.check_predict_proba_one,
)
"""Checks of river that learn. They get samples of the toy machine instead of river's own data sets, and those about
parameters in general do not apply: a machine is no number that could be set anew."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_river_pass(check: Callable[[object, object], None]) -> None:
    check(RiverClassifier(machine()), Samples())
