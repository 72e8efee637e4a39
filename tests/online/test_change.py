from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor

from cgsa.data.windows import overlapping_windows
from cgsa.errors import BundleError, DataError
from cgsa.nn.change import OWN
from cgsa.online.change import Change
from tests.machines import RATE, ToyLibrary, bundle, healthy_bundle

BATCH = 8
LOUD = 10.0
"""Gain at which the healthy toy machine is unlike the training."""
SETTINGS = {"seconds": 0.3, "history_seconds": 40.0, "trend_seconds": 40.0}


def batches(state: str, *, seed: int = 1, gain: float = 1.0, begin: float = 1.0, seconds: float = 3.0) -> list[Tensor]:
    """Windows of the toy machine at its first level."""
    signal = ToyLibrary(seed=seed).get(state, "low", severity="H", specimen=1).signal
    samples = torch.from_numpy(gain * signal[:, round(begin * RATE) : round((begin + seconds) * RATE)]).float()
    spec = healthy_bundle().manifest.window
    return list(torch.split(overlapping_windows(samples, spec.length, spec.step), BATCH))


def run(method: Change, stream: list[Tensor], begin: float = 0.0) -> float:
    """Run a method with a clock, and return the time at which the stream ends."""
    spec = healthy_bundle().manifest.window
    for x in stream:
        end = begin + ((len(x) - 1) * spec.step + spec.length) / RATE
        method.interval = (begin, end)
        method.step(x)
        begin += len(x) * spec.step / RATE
    return begin


def score(method: Change) -> float:
    report = method.change
    assert report is not None
    return report.score


def test_a_healthy_start_becomes_the_reference_and_a_fault_is_a_change() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    assert method.change is None
    assert method.commissioning.text.startswith("waiting: observing the healthy start")
    end = run(method, batches("health"))
    assert method.commissioning.state == "done"
    assert method.commissioning.reference
    assert score(method) < 1
    run(method, batches("wear", begin=1.0), end)
    for _ in range(5):
        run(method, batches("wear"), end)
    assert score(method) > 1
    assert method.predict(batches("wear")[0])[:, 1].min() > 0.5
    assert method.predict(batches("health")[0])[:, 1].max() < 0.5


def test_the_report_names_channel_and_lines_of_the_fault() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    run(method, batches("health"))
    for _ in range(8):
        run(method, batches("wear"))
    report = method.change
    assert report is not None
    # The toy machine's line moves from 60 to 120 Hz, in both channels.
    rose = {(one.channel, round(one.frequency / 60)) for one in report.lines if one.decibels > 0 and not one.envelope}
    fell = {(one.channel, round(one.frequency / 60)) for one in report.lines if one.decibels < 0 and not one.envelope}
    assert rose == {("a", 2), ("b", 2)}
    assert fell <= {("a", 1), ("b", 1)}
    assert "a: 12" in report.text
    assert "Hz line +" in report.text


def test_without_a_reference_bands_are_compared_with_the_training() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    method.mark_faulty()
    for _ in range(8):
        run(method, batches("wear"))
    report = method.change
    assert report is not None
    assert {round(one.frequency / 60) for one in report.lines if one.decibels > 0} == {2}
    assert not method.commissioning.reference


def test_an_unusual_start_leads_to_a_question() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    run(method, batches("health", gain=LOUD))
    assert method.commissioning.state == "question"
    assert method.predict(batches("health", gain=LOUD)[0])[:, 1].min() > 0.5
    method.confirm_healthy()
    assert method.commissioning.reference
    assert method.predict(batches("health", gain=LOUD)[0])[:, 1].max() < 0.5
    method.withdraw()
    assert method.predict(batches("health", gain=LOUD)[0])[:, 1].min() > 0.5
    with pytest.raises(DataError, match="no question is open"):
        method.confirm_healthy()
    with pytest.raises(DataError, match="no reference of this machine"):
        method.withdraw()


def test_the_answer_in_advance_takes_any_start() -> None:
    method = Change(healthy_bundle(), {**SETTINGS, "healthy_start": True})
    ready = [bool(method.step(x).evidence["ready"].all()) for x in batches("health", gain=LOUD)]
    assert not ready[0]
    assert ready[-1]
    assert method.commissioning.reference


def test_a_standstill_and_a_bad_sensor_start_the_span_anew() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    run(method, batches("health", gain=0.01))
    assert "standstill" in method.commissioning.text
    method.interrupt()
    assert "quality gate" in method.commissioning.text
    run(method, batches("health"))
    assert method.commissioning.state == "done"


def test_steady_conditions_make_it_more_sensitive() -> None:
    varied = deepcopy(healthy_bundle())
    varied.require_change().limits[OWN] += 1.0  # On the toy machine, conditions differ less than windows.
    general, steady = (Change(varied, {**SETTINGS, "steady": value}) for value in (False, True))
    for method in (general, steady):
        run(method, batches("health"))
        run(method, batches("health", gain=1.1, seed=2))
    assert score(steady) > score(general)


def test_a_slow_change_shows_in_the_trend_before_the_alarm() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    time = run(method, batches("health"))
    healthy = batches("health", seed=3, seconds=2.0)
    fault = batches("wear", seed=3, seconds=2.0)
    reports = []
    for share in np.linspace(0, 0.25, 12):
        mixed = [(1 - share) * a + share * b for a, b in zip(healthy, fault, strict=True)]
        time = run(method, [torch.as_tensor(one, dtype=torch.float32) for one in mixed], time)
        reports.append(method.change)
    rising = [one for one in reports if one is not None and one.per_hour is not None and one.per_hour > 0]
    assert rising
    assert rising[0].score < 1


def test_labels_name_what_changed_and_survive_a_restart() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    begin = run(method, batches("health"))
    end = run(method, batches("wear") * 4, begin)
    assert method.change is not None
    assert method.change.label is None
    method.label("worn gear", begin + 1, end)
    resumed = Change(healthy_bundle(), SETTINGS)
    resumed.load_state_dict(method.state_dict())
    for one in (method, resumed):
        report = one.change
        assert report is not None
        assert report.label == "worn gear"
        assert report.probability is not None
        assert report.probability > 0.5
        assert "like worn gear" in report.text
    # A different fault stays a change without a name.
    for _ in range(6):
        end = run(method, batches("crack"), end)
    assert method.change is not None
    assert method.change.label is None


def test_an_interval_that_is_labelled_healthy_becomes_a_reference() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    begin = run(method, batches("health"))
    end = run(method, batches("health", gain=LOUD) * 4, begin)
    assert method.predict(batches("health", gain=LOUD)[0])[:, 1].min() > 0.5
    method.label("health", begin + 1, end)
    assert len(method.memory["references"]) == 2
    assert method.predict(batches("health", gain=LOUD)[0])[:, 1].max() < 0.5
    assert method.predict(batches("health")[0])[:, 1].max() < 0.5


def test_a_reference_from_the_history_must_be_suitable_and_covered() -> None:
    method = Change(healthy_bundle(), SETTINGS)
    with pytest.raises(DataError, match="no complete block"):
        method.take_from_history(0.0, 1.0)
    end = run(method, batches("health"))
    method.take_from_history(0.0, end)
    assert len(method.memory["references"]) == 2
    still = run(method, batches("health", gain=0.001), end + 10)
    with pytest.raises(DataError, match="standstill"):
        method.take_from_history(end + 9, still)


def test_other_bundles_are_refused_and_say_what_to_train() -> None:
    with pytest.raises(BundleError, match="--healthy-only"):
        Change(bundle())
    with pytest.raises(BundleError, match="method 'change'"):
        _ = healthy_bundle().network
    with pytest.raises(BundleError, match="healthy recordings alone"):
        healthy_bundle().require_ensemble()
