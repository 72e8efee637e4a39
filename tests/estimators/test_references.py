"""What gives a reference, and every way to be refused one."""

from __future__ import annotations

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.estimators.machine import Machine
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.online.commissioned import CommissionedMethod
from tests.estimators.toy import commissioned, machine
from tests.machines import RATE, bundle, ensemble_bundle, healthy_bundle
from tests.online.models import trained_bundle
from tests.starts import FOOLING, steady


@pytest.mark.parametrize("name", ["standstill", "noise", "far outside", "clipping", "disconnected", "moving"])
def test_samples_that_are_no_healthy_start_are_refused_and_change_nothing(name: str) -> None:
    samples, waiting = FOOLING[name]
    found = commissioned()
    before = found.predict(steady("wear")).to_dict()
    with pytest.raises(DataError, match=f"no reference was taken, {waiting.removeprefix('waiting: ')}"):
        found.commission(samples, sample_rate=RATE)
    assert found.predict(steady("wear")).to_dict() == before


def test_a_machine_that_looks_faulty_but_is_healthy_gets_a_reference() -> None:
    found, samples = machine(), steady("health", strange=2.0)
    assert found.predict(samples).verdict[-1] == "wear"
    assert found.commission(samples, sample_rate=RATE).reference
    assert found.predict(samples).verdict[-1] == "health"


def test_the_reference_is_that_of_a_stream_that_is_known_to_start_healthy() -> None:
    samples, streamed = steady("health", strange=2.0), machine()
    method = streamed._signal.method
    assert isinstance(method, CommissionedMethod)
    method.repeat(healthy=True)
    list(streamed.stream([samples]))
    given = machine()
    given.commission(samples, sample_rate=RATE)
    np.testing.assert_array_equal(given.predict_proba(samples), streamed.predict_proba(samples))


def test_an_unsteady_beginning_is_passed_over() -> None:
    begin = steady("health", strange=2.0)[:, :1000] * np.linspace(1, 8, 1000, dtype=np.float32)
    found = machine()
    status = found.commission(np.concatenate([begin, steady("health", strange=2.0)], axis=1), sample_rate=RATE)
    assert status.reference


def test_too_few_samples_are_refused_with_the_number_that_suffices() -> None:
    with pytest.raises(DataError, match=r"0\.3 s hold 11 windows, .* pass at least 1104 samples, 1\.1 s"):
        machine().commission(steady("health")[:, :300], sample_rate=RATE)
    machine().commission(steady("health")[:, :1104], sample_rate=RATE)


def test_the_rate_must_be_stated_once() -> None:
    with pytest.raises(DataError, match=r"pass sample_rate= \(the model was trained at 1000 Hz\)"):
        machine().commission(steady("health"))


def test_a_model_of_the_healthy_machine_is_commissioned() -> None:
    found = Machine(healthy_bundle())
    assert found.commission(steady("health"), sample_rate=RATE).reference
    assert found.predict(steady("wear")).verdict[-1] == "changed"
    list(found.stream([steady("wear")]))
    assert found.change is not None
    assert found.change.score > 1


def test_a_network_with_a_reference_refuses_what_resembles_no_machine() -> None:
    samples = FOOLING["noise"][0] * 100
    with pytest.raises(DataError, match="no reference was taken, "):
        Machine(trained_bundle()).commission(samples, sample_rate=RATE)


def test_a_method_without_a_reference_names_those_with_one() -> None:
    with pytest.raises(
        DataError, match="'cgsa' uses no healthy reference; methods commissioning, change and reference"
    ):
        Machine(bundle(), DiagnosisConfig("cgsa")).commission(steady("health"), sample_rate=RATE)
    assert Machine(ensemble_bundle(), DiagnosisConfig("source")).commissioned
