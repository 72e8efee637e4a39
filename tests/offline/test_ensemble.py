from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import Barrier, Lock
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cgsa.data.recording import Recording
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.errors import DataError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.ensemble import CLASSIFIERS, Ensemble, EnsembleConfig
from cgsa.nn.known import KnownCheck
from cgsa.nn.orders import SpeedConfig
from cgsa.nn.spectra import FeatureConfig
from cgsa.offline import ensemble as ensemble_training
from cgsa.offline.ensemble import (
    extract_features,
    fit_ensemble,
    hold_out,
    judge_known_speed,
    pool_weights,
    speed_weights,
    train_ensemble,
    weights_elsewhere,
    windows_per_recording,
)
from cgsa.offline.heads import fit_heads
from cgsa.offline.held_out import HeldOut, TrainingFeatures
from cgsa.offline.parts import Part
from cgsa.offline.pool import equal_weights, fit_pool, fit_scale
from cgsa.offline.run import Progress
from tests.machines import (
    CLASSES,
    ENSEMBLE,
    ENSEMBLE_SPEC,
    RATE,
    ensemble_bundle,
    ensemble_manifest,
    ensemble_windows,
)
from tests.threads import blas_threads, threads_and_cores

SMALL = EnsembleConfig((FeatureConfig("spectrum", 16), FeatureConfig("cross_spectrum", 8)), ("logistic", "lda"))


def small_manifest(classifiers: tuple[str, ...] = SMALL.classifiers) -> Manifest:
    return replace(ensemble_manifest(), ensemble=replace(SMALL, classifiers=classifiers))


def recorded(label: int, seed: int, samples: int = 900, load: float = 0.0, machine: int = 1) -> Segment:
    """A recording of a class that has its own frequency, at a steady load."""
    rng = np.random.default_rng([label, seed, machine])
    time = np.arange(samples) / RATE
    line = (1 + 0.1 * load) * np.sin(2 * np.pi * (60 + 100 * label) * time)
    signal = np.stack([line, 0.5 * line]) + 0.3 * rng.standard_normal((2, samples))
    conditions = {"torque": np.full(samples, load, np.float32)}
    found = Recording(
        signal.astype(np.float32), RATE, ("a", "b"), ("g", "g"), conditions, source=f"{label}/{seed}/{machine}/{load}"
    )
    return Segment(found, label, 0, machine)


def at_loads(loads: tuple[float, ...], *, machines: int = 1, samples: int = 900) -> Windows:
    segments = [
        recorded(label, 0, samples, load, machine)
        for machine in range(1, machines + 1)
        for load in loads
        for label in range(len(CLASSES))
    ]
    return Windows(segments, ENSEMBLE_SPEC, conditions=("torque",))


@cache
def features_at_loads() -> TrainingFeatures:
    return extract_features(Ensemble(SMALL, 2, ENSEMBLE_SPEC, len(CLASSES)), at_loads((0.0, 5.0, 10.0)))


@cache
def held_out_at_loads() -> list[HeldOut]:
    return hold_out(features_at_loads(), SMALL, len(CLASSES))


def test_features_are_those_of_evenly_spread_windows() -> None:
    windows = ensemble_windows()
    ensemble = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    found = extract_features(ensemble, windows)
    assert windows.first_windows is not None
    place = 0
    for segment, (first, last) in enumerate(zip(windows.first_windows, windows.first_windows[1:], strict=False)):
        count = min(40, last - first)
        for number in (0, count // 2, count - 1):
            window = first + int(np.float32(number) * np.float32((last - first - 1) / (count - 1)) + 1e-3)
            x = windows.gather(torch.tensor([window]))
            for kind, features in zip(found.kinds, ensemble.extract(x), strict=True):
                assert torch.equal(kind[place + number], features[0])
            assert windows.conditions is not None
            assert found.conditions[place + number] == windows.conditions[window]
            begin, end = (found.spans[place + number] * ((last - first - 1) * 16 + 128)).tolist()
            assert (begin, end) == pytest.approx((16 * (window - first), 16 * (window - first) + 128), abs=0.01)
        assert bool((found.labels[place : place + count] == windows.labels[first]).all())
        assert bool((found.machines[place : place + count] == windows.machines[first]).all())
        assert bool((found.recordings[place : place + count] == segment).all())
        place += count
    assert len(found) == place


def test_of_long_recordings_only_the_windows_that_are_used_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, read = at_loads((0.0, 5.0), samples=12_000), list[int]()
    ensemble = Ensemble(SMALL, 2, ENSEMBLE_SPEC, len(CLASSES))
    extract = ensemble.extract

    def counted(x: Tensor) -> list[Tensor]:
        read.append(len(x))
        return extract(x)

    monkeypatch.setattr(ensemble, "extract", counted)
    found = extract_features(ensemble, windows)
    assert sum(read) == len(found) == 6 * windows_per_recording(6) < len(windows)
    begins = found.spans[:, 0] * 12_000
    assert float(begins[windows_per_recording(6) - 1]) == pytest.approx(
        windows.spec.step * (len(windows) // 6 - 1), abs=1
    )
    last = windows.gather(torch.tensor([len(windows) - 1]))
    for kind, features in zip(found.kinds, extract(last), strict=True):
        assert torch.equal(kind[-1], features[0])


def test_many_recordings_lend_fewer_windows_each() -> None:
    assert [windows_per_recording(count) for count in (1, 6, 60, 100, 160, 1000)] == [480, 80, 8, 8, 7, 2]


def test_features_need_whole_recordings() -> None:
    windows = ensemble_windows()
    with pytest.raises(DataError, match="these windows are a selection"):
        extract_features(Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, 3), windows.subset(torch.arange(10)))


def test_held_out_scores_come_from_an_ensemble_that_never_saw_the_part() -> None:
    features, found = features_at_loads(), held_out_at_loads()
    assert [one.part for one in found] == [
        Part("level", ((0, 0.0, 0.0),), outermost=True),
        Part("level", ((0, 5.0, 5.0),)),
        Part("level", ((0, 10.0, 10.0),), outermost=True),
        Part("latest"),
    ]
    assert [one.weighs for one in found] == [True, True, True, False]
    for load, one in zip((0.0, 5.0, 10.0), found, strict=False):
        rest, out = (
            features.subset(features.conditions[:, 0] != load),
            features.subset(features.conditions[:, 0] == load),
        )
        ensemble = Ensemble(SMALL, 2, ENSEMBLE_SPEC, len(CLASSES))
        fit_ensemble(ensemble, rest, [])
        scores = ensemble.member_scores(out.kinds)
        torch.testing.assert_close(one.scores, scores)
        assert torch.equal(one.labels, out.labels)
        assert torch.equal(one.recordings, out.recordings)
        assert torch.equal(features.labels[one.index], out.labels)
        assert torch.equal(one.windows.spans, out.spans)
        torch.testing.assert_close(one.healthy, ensemble.healthy_scores())
        shift = scores[out.labels == 0].mean(dim=0) - ensemble.healthy_scores()
        torch.testing.assert_close(one.shift, shift.expand_as(scores), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(one.with_reference(0.25), scores - 0.25 * shift, rtol=1e-4, atol=1e-4)


def test_the_last_quarter_shares_no_sample_with_the_rest() -> None:
    features, latest = features_at_loads(), held_out_at_loads()[-1]
    begin, end = features.spans.unbind(dim=1)
    assert len(latest.labels) == int((begin >= 0.75).sum()) > 0
    fitted = Ensemble(SMALL, 2, ENSEMBLE_SPEC, len(CLASSES))
    fit_ensemble(fitted, features.subset(end <= 0.75), [])
    torch.testing.assert_close(latest.scores, fitted.member_scores(features.subset(begin >= 0.75).kinds))


def test_every_machine_has_its_own_reference_and_one_without_healthy_windows_has_none() -> None:
    features = features_at_loads()
    half = torch.arange(len(features)) % 2
    # Machine 2 was never recorded when healthy.
    two = replace(features, machines=1 + half).subset((half == 0) | (features.labels > 0))
    out = next(one for one in hold_out(two, SMALL, len(CLASSES)) if one.part.specimen == 2)
    assert bool((out.shift == 0).all())
    both = replace(features, machines=1 + half)
    level = hold_out(both, SMALL, len(CLASSES))[0]
    machines = both.machines[both.conditions[:, 0] == 0.0]
    for machine in (1, 2):
        own = machines == machine
        healthy = level.scores[own & (level.labels == 0)].mean(dim=0)
        shift = level.shift[own]
        torch.testing.assert_close(shift, shift[:1].expand_as(shift))
        other = level.scores[~own & (level.labels == 0)].mean(dim=0)
        torch.testing.assert_close(shift[0] - level.shift[~own][0], healthy - other, rtol=1e-4, atol=1e-4)


def test_a_part_that_holds_all_windows_of_a_class_is_not_held_out() -> None:
    features = features_at_loads()
    some = features.subset((features.labels != 2) | (features.conditions[:, 0] == 5.0))
    steps: list[tuple[int, int]] = []
    found = hold_out(some, SMALL, len(CLASSES), lambda progress: steps.append((progress.step, progress.steps)))
    assert [one.part.levels[0][1] for one in found if one.part.kind == "level"] == [0.0, 10.0]
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_weights_are_fitted_with_and_without_a_reference_and_scaled_by_the_inner_levels() -> None:
    found = held_out_at_loads()
    levels = found[:-1]
    scores, labels, recordings = [], [], []
    for number, one in enumerate(levels):
        for part in (one.scores, one.with_reference()):
            scores.append(part)
            labels.append(one.labels)
            recordings.append(one.recordings + 1000 * number)
    pool = fit_pool(torch.cat(scores), torch.cat(labels), torch.cat(recordings))
    inner = levels[1]
    both = torch.cat([inner.scores, inner.with_reference()])
    scale = fit_scale(both, inner.labels.repeat(2), inner.recordings.repeat(2), pool)
    torch.testing.assert_close(pool_weights(found, 4), scale * pool, rtol=1e-4, atol=1e-6)
    outer = [levels[0], levels[2]]
    assert bool((pool_weights(outer, 4) > 0).all())
    # The latest part of every recording says nothing about the members.
    assert torch.equal(pool_weights(found[-1:], 4), equal_weights(4))
    assert torch.equal(pool_weights([], 4), equal_weights(4))


def test_weights_of_a_part_are_fitted_to_windows_outside_it() -> None:
    found = held_out_at_loads()
    # The last quarter has windows of every level, which count for none of them.
    for number, (one, pool) in enumerate(zip(found, weights_elsewhere(found, 4), strict=True)):
        rest = [other for place, other in enumerate(found) if place != number]
        if one.part.kind == "latest":
            rest = [other.subset(~torch.isin(other.index, one.index)) for other in rest]
        assert torch.equal(pool, pool_weights(rest, 4))
    # Nothing tells the members apart: equal weights, as confident as those of the ensemble.
    [alone] = weights_elsewhere(found[1:2], 4)
    torch.testing.assert_close(alone, pool_weights(found[1:2], 4).sum() * equal_weights(4))


def test_one_of_two_levels_is_judged_and_does_not_weigh() -> None:
    features = features_at_loads()
    found = hold_out(features.subset(features.conditions[:, 0] < 10), SMALL, len(CLASSES))
    assert [(one.part.kind, one.part.one_of_two) for one in found] == [
        ("level", True),
        ("level", True),
        ("latest", False),
    ]
    assert torch.equal(pool_weights(found, 4), equal_weights(4))


def test_a_training_gives_a_calibrated_bundle() -> None:
    windows = at_loads((0.0, 5.0, 10.0))
    trained = train_ensemble(windows, small_manifest()).bundle
    found = held_out_at_loads()
    calibration, assessment = trained.manifest.calibration, trained.manifest.assessment
    assert calibration is not None
    assert assessment is not None
    assert [one.name for one in assessment.results] == [
        "torque 0 Nm",
        "torque 5 Nm",
        "torque 10 Nm",
        "last quarter of every recording",
    ]
    assert calibration.levels == 3
    # A level between others represents a new condition; the outermost ones are farther away.
    assert calibration.accuracy == assessment.results[1].accuracy
    assert calibration.latest_accuracy == assessment.results[3].accuracy
    assert calibration.temperature == 1.0
    assert isinstance(trained.known, KnownCheck)
    assert calibration.distance == pytest.approx(1 / float(trained.known.usual))
    assert trained.trained_on() == windows.intervals
    torch.testing.assert_close(trained.require_ensemble().pool.double(), pool_weights(found, 4), rtol=1e-4, atol=1e-6)
    scores = trained.require_ensemble()(windows.gather(torch.arange(len(windows))))
    assert float((scores.argmax(dim=1) == windows.labels).double().mean()) > 0.95


def same_tensors(a: ModelBundle, b: ModelBundle) -> bool:
    first, second = a._tensors(), b._tensors()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_same_training_twice_gives_the_same_bits() -> None:
    first, second = (train_ensemble(at_loads((0.0, 5.0)), small_manifest(("lda", "kernel"))).bundle for _ in range(2))
    assert first.manifest == second.manifest
    assert same_tensors(first, second)


def test_a_model_does_not_depend_on_how_many_parts_are_held_out_side_by_side() -> None:
    """With all classifiers, and with members in orders."""
    segments = [turning(label, speed, 0) for label in range(3) for speed in (8.0, 11.0, 15.0)]
    windows = Windows(segments, WindowSpec(1024, 256), conditions=("torque",))
    config = replace(TURNING, classifiers=CLASSIFIERS)
    manifest = replace(ensemble_manifest(), window=windows.spec, ensemble=config)
    models = []
    for threads in (1, 2):
        with threads_and_cores(threads):
            models.append(train_ensemble(windows, manifest).bundle)
    assert models[0].manifest == models[1].manifest
    assert same_tensors(*models)


def test_two_threads_fit_on_two_cores_and_libraries_add_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, both, fitted, fitting, most = Lock(), Barrier(2), 0, 0, 0

    def counted(*arguments: Any) -> None:
        nonlocal fitted, fitting, most
        with lock:
            fitted, fitting = fitted + 1, fitting + 1
            most, first = max(most, fitting), fitted <= 2
        if first:
            both.wait(10)
        assert (torch.get_num_threads(), blas_threads()) == (1, {1})
        fit_heads(*arguments)
        with lock:
            fitting -= 1

    monkeypatch.setattr(ensemble_training, "fit_heads", counted)
    with threads_and_cores(4, cores=2):
        train_ensemble(at_loads((0.0, 5.0, 10.0)), small_manifest())
        assert torch.get_num_threads() == 4
    # Two kinds of features, without each of four parts and with all of them.
    assert (fitted, most) == (10, 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_part_that_fails_ends_the_training(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    def failing(*_: Any) -> None:
        raise DataError("a feature is not finite")

    monkeypatch.setattr(ensemble_training, "fit_heads", failing)
    with threads_and_cores(threads), pytest.raises(DataError, match="a feature is not finite"):
        train_ensemble(at_loads((0.0, 5.0)), small_manifest())


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_training_ends(threads: int) -> None:
    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    with threads_and_cores(threads):
        with pytest.raises(KeyboardInterrupt):
            train_ensemble(at_loads((0.0, 5.0)), small_manifest(), interrupt)
        assert torch.get_num_threads() == threads


def test_a_kernel_classifier_may_be_the_only_one() -> None:
    windows = at_loads((0.0, 5.0))
    trained = train_ensemble(windows, small_manifest(("kernel",))).bundle.require_ensemble()
    scores = trained(windows.gather(torch.arange(len(windows))))
    assert float((scores.argmax(dim=1) == windows.labels).double().mean()) > 0.95


def test_short_recordings_at_one_level_leave_nothing_to_hold_out() -> None:
    """Three windows per recording: none of them lies within the last quarter."""
    trained = train_ensemble(at_loads((0.0,), samples=3 * ENSEMBLE_SPEC.length), small_manifest()).bundle
    assert trained.manifest.calibration is None
    assert trained.known is None
    assert torch.equal(trained.require_ensemble().pool, equal_weights(4).float())


def test_a_manifest_of_a_network_is_refused() -> None:
    with pytest.raises(DataError, match="describes no ensemble"):
        train_ensemble(at_loads((0.0,)), replace(ensemble_manifest(), ensemble=None))


def test_the_toy_ensemble_is_cheap_and_fits_its_manifest() -> None:
    toy = ensemble_bundle()
    assert toy.manifest.ensemble == toy.require_ensemble().config
    assert torch.equal(toy.require_ensemble().pool, equal_weights(16).float())


TURNING = EnsembleConfig((FeatureConfig("envelope", 64, stretched=True),), ("logistic", "lda"), SpeedConfig(0, 11.0))
"""Envelopes of a machine whose impacts come in proportion to its speed."""


def turning(label: int, speed: float, seed: int) -> Segment:
    """Noise that swells once or 1.6 times per turn of a faulty machine."""
    rng = np.random.default_rng([label, round(speed), seed])
    time = np.arange(3000) / RATE
    swelling = 1 + 0.9 * np.sin(2 * np.pi * speed * (0.0, 1.0, 1.6)[label] * time)
    signal = swelling * rng.standard_normal((2, 3000))
    conditions = {"torque": np.full(3000, speed, np.float32)}
    source = f"{label}/{speed}/{seed}"
    return Segment(
        Recording(signal.astype(np.float32), RATE, ("a", "b"), ("g", "g"), conditions, source=source), label, 0
    )


@cache
def held_out_at_speeds() -> list[HeldOut]:
    segments = [turning(label, speed, seed) for label in range(3) for speed in (8.0, 11.0, 15.0) for seed in range(2)]
    windows = Windows(segments, WindowSpec(1024, 256), conditions=("torque",))
    features = extract_features(Ensemble(TURNING, 2, windows.spec, len(CLASSES)), windows)
    return hold_out(features, TURNING, len(CLASSES))


def test_members_in_orders_know_impacts_at_another_speed() -> None:
    found = held_out_at_speeds()
    members, every = len(TURNING.members), len(TURNING.members) + len(TURNING.order_members)
    accuracy = [
        [float((one.scores[:, m].argmax(dim=1) == one.labels).double().mean()) for m in range(every)]
        for one in found[:3]
    ]
    assert min(min(row[members:]) for row in accuracy) > 0.9 > max(row[0] for row in accuracy)
    judged = judge_known_speed(found, members, every)
    assert judged is not None
    assert judged.used
    assert judged.accuracy is not None
    assert judged.accuracy_without is not None
    assert judged.accuracy > 0.9 > judged.accuracy_without
    assert torch.equal(speed_weights(found, members, every, judged), pool_weights(found, every))
    # The members that need no speed are weighed as if there were no others.
    plain = [replace(one, scores=one.scores[:, :members], shift=one.shift[:, :members]) for one in found]
    assert torch.equal(pool_weights(found, members), pool_weights(plain, members))


def test_members_in_orders_get_no_weight_where_they_take_likelihood_away() -> None:
    """They are right at two speeds, which gives them weight at the third, where they are wrong."""
    members, every = len(TURNING.members), len(TURNING.members) + len(TURNING.order_members)
    wrong = []
    for number, one in enumerate(held_out_at_speeds()):
        right, told = (torch.nn.functional.one_hot((one.labels + shift) % 3, 3)[:, None] for shift in (0, number == 0))
        scores = torch.cat([right.expand(-1, members, -1), 8 * told.expand(-1, every - members, -1)], dim=1).float()
        wrong.append(replace(one, scores=scores, shift=torch.zeros_like(scores)))
    judged = judge_known_speed(wrong, members, every)
    assert judged is not None
    assert not judged.used
    found = speed_weights(wrong, members, every, judged)
    assert torch.equal(found[:members], pool_weights(wrong, members))
    assert not found[members:].any()
    # Nor if nothing was held out.
    assert judge_known_speed([], members, every) is None
    assert not speed_weights([], members, every, None)[members:].any()
