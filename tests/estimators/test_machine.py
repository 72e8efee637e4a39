from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cgsa
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.estimators.machine import Machine
from cgsa.estimators.verdicts import WindowVerdicts
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.profile import Profile
from cgsa.workflow import diagnose, with_healthy_start
from tests.estimators.toy import commissioned, machine, windows_of
from tests.machines import ENSEMBLE_SPEC, RATE, ensemble_bundle, speed_bundle
from tests.online.models import trained_bundle
from tests.starts import steady

WEAR = steady("wear")


def equal(one: WindowVerdicts, other: WindowVerdicts) -> bool:
    return one.to_dict() == other.to_dict()


def test_a_loaded_model_is_commissioned_and_says_what_is_wrong(tmp_path: Path) -> None:
    ensemble_bundle().save(tmp_path / "model")
    found = cgsa.load(tmp_path / "model")
    assert found.commission(steady("health"), sample_rate=RATE).state == "done"
    verdicts = found.predict(WEAR)
    assert len(verdicts) == ENSEMBLE_SPEC.count(WEAR.shape[1])
    assert (verdicts.verdict[-1], verdicts.alarm[-1]) == ("wear", "wear")
    assert verdicts.trust[-1] > 0.5
    assert found.predict(steady("health")).alarm[-1] is None


def test_a_model_with_a_healthy_reference_is_one_too() -> None:
    found = Machine(trained_bundle())
    with pytest.raises(DataError, match="call commission with healthy samples first"):
        found.predict(WEAR)
    assert found.commission(steady("health"), sample_rate=RATE).reference
    assert found.predict(WEAR).verdict[-1] == "wear"


def test_prediction_changes_nothing() -> None:
    found = commissioned()
    before = found.predict(WEAR)
    found.predict(steady("crack"))
    assert equal(found.predict(WEAR), before)


def test_a_stream_tells_what_the_command_tells() -> None:
    recording = Recording(WEAR, RATE, ("a", "b"), ("g", "g"))
    config = with_healthy_start(DiagnosisConfig.from_profile(Profile.load("recommended")))
    events = [batch.event for batch in diagnose(SignalDiagnoser(ensemble_bundle(), config), [recording])]
    found = list(Machine(ensemble_bundle(), config).stream([recording]))
    assert [batch.verdict[-1] for batch in found] == [event.state for event in events][: len(found)]
    assert [batch.alarm[-1] for batch in found] == [event.alarm for event in events][: len(found)]
    assert len(events) - len(found) == 1  # windows that complete no batch wait for more samples


def test_a_commissioned_machine_predicts_what_it_streams() -> None:
    streamed = WindowVerdicts.concatenate(commissioned().stream([WEAR]))
    predicted = commissioned().predict(WEAR)
    assert predicted.verdict[: len(streamed)].tolist() == streamed.verdict.tolist()
    np.testing.assert_array_equal(predicted.probabilities[: len(streamed)], streamed.probabilities)


@settings(max_examples=5)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=12))
def test_a_stream_does_not_depend_on_the_size_of_its_blocks(sizes: list[int]) -> None:
    samples = WEAR[:, :1200]
    borders = [0, *(border for border in np.cumsum(sizes).tolist() if border < 1200), 1200]
    blocks = [samples[:, begin:end].T for begin, end in pairwise(borders)]
    whole = WindowVerdicts.concatenate(machine().stream([samples]))
    assert equal(WindowVerdicts.concatenate(machine().stream(blocks, channels_first=False)), whole)


def test_a_stream_resumes_from_call_to_call_and_remembers_the_order_of_the_axes() -> None:
    found = machine()
    parts = [*found.stream([WEAR[:, :998].T]), *found.stream([WEAR[:, 998:1000].T]), *found.stream([WEAR[:, 1000:].T])]
    assert equal(WindowVerdicts.concatenate(parts), WindowVerdicts.concatenate(machine().stream([WEAR])))


def test_windows_of_the_model_are_the_signal_that_they_were_cut_from() -> None:
    used = ENSEMBLE_SPEC.step * (ENSEMBLE_SPEC.count(WEAR.shape[1]) - 1) + ENSEMBLE_SPEC.length
    windows = windows_of(WEAR, ENSEMBLE_SPEC.step)
    assert equal(commissioned().predict(windows), commissioned().predict(WEAR[:, :used]))


def test_separate_windows_have_the_probabilities_that_they_have_in_the_signal() -> None:
    every = ENSEMBLE_SPEC.length // ENSEMBLE_SPEC.step
    found = machine().predict(windows_of(WEAR, ENSEMBLE_SPEC.length))
    np.testing.assert_allclose(found.probabilities, machine().predict(WEAR).probabilities[::every], rtol=1e-5)
    assert found.verdict[-1] == "wear"


def test_probabilities_are_those_of_the_prediction() -> None:
    np.testing.assert_array_equal(machine().predict_proba(WEAR), machine().predict(WEAR).probabilities)


def test_a_prediction_is_no_start_of_known_health() -> None:
    waiting = Machine(ensemble_bundle(), with_healthy_start(machine().config))
    assert equal(waiting.predict(WEAR), machine().predict(WEAR))


def test_a_bad_sample_costs_its_windows_only() -> None:
    damaged = WEAR.copy()
    damaged[0, 500] = np.nan
    found, sound = machine().predict(damaged), machine().predict(WEAR)
    bad = found.quality == "not a number"
    assert bad.sum() == ENSEMBLE_SPEC.length // ENSEMBLE_SPEC.step
    assert set(found.verdict[bad]) == {"no data"}
    assert np.isnan(found.probabilities[bad]).all()
    np.testing.assert_array_equal(found.probabilities[~bad], sound.probabilities[~bad])


def test_too_few_samples_are_refused_with_the_length_of_a_window() -> None:
    with pytest.raises(DataError, match="50 samples; expected at least one window of 128"):
        machine().predict(WEAR[:, :50])


def test_a_stream_refuses_windows() -> None:
    with pytest.raises(DataError, match="a stream takes consecutive samples"):
        list(machine().stream([windows_of(WEAR, ENSEMBLE_SPEC.length)]))


def test_known_conditions_reach_the_model() -> None:
    found = Machine(speed_bundle())
    unaware, aware = (found.predict_proba(WEAR, conditions=known) for known in (None, {"torque": 8.0}))
    assert not np.allclose(unaware, aware)


def test_reset_forgets_reference_and_stream() -> None:
    found = commissioned()
    list(found.stream([WEAR]))
    found.reset()
    assert found.commissioning is not None
    assert found.commissioning.state == "waiting"
    assert equal(WindowVerdicts.concatenate(found.stream([WEAR])), WindowVerdicts.concatenate(machine().stream([WEAR])))


def test_a_pickled_machine_resumes_without_pickled_modules() -> None:
    found = commissioned()
    list(found.stream([WEAR[:, :1000]]))
    packed = pickle.dumps(found)
    assert b"torch" not in packed
    copied = pickle.loads(packed)  # noqa: S301 - packed above
    rest = [WindowVerdicts.concatenate(one.stream([WEAR[:, 1000:]])) for one in (found, copied)]
    assert equal(*rest)


def test_the_parts_of_a_model_are_in_its_description() -> None:
    assert repr(machine()) == "Machine(health, wear, crack; a, b at 1000 Hz; method commissioning)"
