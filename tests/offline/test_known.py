from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from cgsa.data.recording import Recording
from cgsa.data.windows import Segment, Windows, overlapping_windows
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import NEVER, UNLIKE, KnownConfig
from cgsa.offline.ensemble import extract_features
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.impostors import impostors
from cgsa.offline.known import (
    MARGIN,
    Directions,
    FittedKnown,
    HeldOutScores,
    check_limits,
    fit_known,
    held_out_windows,
    whitening_of,
)
from tests.machines import CLASSES, ENSEMBLE, ENSEMBLE_SPEC, RATE, ensemble_manifest

SECONDS = 2


def recording(speed: float, seed: int) -> Recording:
    """Two channels with lines of the speed and noise: the second channel is lower and has a line of its own."""
    random = np.random.default_rng(seed)
    time = np.arange(round(SECONDS * RATE)) / RATE
    line, other = np.sin(2 * np.pi * speed * time), np.sin(2 * np.pi * 3 * speed * time)
    noise = random.standard_normal((2, len(time)))
    noise[:, 1:] += noise[:, :-1]
    signal = np.stack([line, 0.3 * line + 0.3 * other]) + 0.2 * noise
    return Recording(
        signal=signal.astype(np.float32),
        sample_rate=RATE,
        channels=("a", "b"),
        units=("g", "g"),
        conditions={"speed": np.full(len(time), speed, np.float32)},
        source=f"{speed} {seed}",
    )


def windows(speeds: tuple[float, ...] = (40.0, 50.0, 60.0)) -> Windows:
    segments = [Segment(recording(speed, seed), 0, 0) for speed in speeds for seed in range(2)]
    return Windows(segments, ENSEMBLE_SPEC, conditions=("speed",))


@cache
def fitted() -> tuple[Ensemble, TrainingFeatures, FittedKnown]:
    ensemble = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    features = extract_features(ensemble, windows())
    return ensemble, features, fit_known(ensemble, windows(), features)


def asked(signal: np.ndarray) -> list[str | None]:
    ensemble, _, known = fitted()
    x = overlapping_windows(torch.from_numpy(signal.astype(np.float32)), ENSEMBLE_SPEC.length, 64)
    return [known.config.question(number) for number in known.check(ensemble.extract(x))[1].tolist()]


@pytest.mark.parametrize("speed", [45.0, 55.0])
def test_the_machine_at_a_speed_absent_from_training_is_known(speed: float) -> None:
    assert set(asked(recording(speed, 9).signal)) == {None}


NAMED = {one.name: one for one in impostors(("a", "b"), ("g", "g")) if one.question != UNLIKE}


@pytest.mark.parametrize("name", NAMED)
def test_imitations_of_another_recording_are_noticed(name: str) -> None:
    found = asked(NAMED[name].imitate(recording(55.0, 9).signal.astype(np.float64), np.random.default_rng(3)))
    assert sum(one is not None for one in found) >= 0.9 * len(found)


def test_the_model_claims_to_notice_all_of_them_and_white_noise_is_named() -> None:
    assert fitted()[2].config.unnoticed == ()
    noise = NAMED["white noise"].imitate(recording(55.0, 9).signal.astype(np.float64), np.random.default_rng(3))
    found = asked(noise)
    assert found.count(NAMED["white noise"].question) > len(found) / 2


def test_distances_of_the_training_are_about_one_and_below_the_limit() -> None:
    _, features, known = fitted()
    assert known.distance.shape == (len(features),)
    assert 0.5 < float(known.distance.median()) < 2
    assert float((known.distance > known.limit).double().mean()) <= 0.01
    assert known.limit == pytest.approx(1 / float(known.check.usual))


def test_the_same_training_gives_the_same_check() -> None:
    ensemble, features, known = fitted()
    again = fit_known(ensemble, windows(), features)
    assert again.config == known.config
    for one, other in zip(again.check.buffers(), known.check.buffers(), strict=True):
        assert torch.equal(one, other)


def test_a_manifest_says_what_is_not_noticed() -> None:
    known = fitted()[2]
    blind = replace(known, config=KnownConfig(("a?", "b?"), ("white noise", "half the sample rate")))
    described = blind.describe(ensemble_manifest())
    assert described.known == blind.config
    assert described.notes[-1].endswith("pass for the machine itself: white noise, half the sample rate")
    silent = replace(known, config=KnownConfig(("a?",)))
    assert silent.describe(ensemble_manifest()).notes == ensemble_manifest().notes


def test_levels_combinations_and_machines_are_held_out() -> None:
    conditions = torch.tensor([[1.0, 5.0], [1.0, 6.0], [2.0, 5.0], [2.0, 6.0]]).double()
    one = torch.zeros(4, dtype=torch.long)
    features = TrainingFeatures(
        [], one, torch.arange(4), torch.tensor([1, 1, 1, 2]), conditions, torch.zeros(4, 2), torch.zeros(4, 1)
    )
    found = [out.nonzero().squeeze(1).tolist() for _, out in held_out_windows(features)]
    assert found == [[0, 1], [2, 3], [0, 2], [1, 3], [0], [1], [2], [3], [0, 1, 2], [3]]
    assert all(torch.equal(rest, ~out) for rest, out in held_out_windows(features))


def test_without_anything_that_varies_the_latest_part_is_held_out() -> None:
    spans = torch.tensor([[0.0, 0.5], [0.2, 0.75], [0.5, 0.9], [0.75, 1.0]])
    one = torch.zeros(4, dtype=torch.long)
    features = TrainingFeatures([], one, one, one, torch.ones(4, 1).double(), spans, torch.zeros(4, 1))
    ((rest, out),) = held_out_windows(features)
    assert rest.tolist() == [True, True, False, False]
    assert out.tolist() == [False, False, False, True]
    ((rest, out),) = held_out_windows(replace(features, spans=spans[:1].expand(4, 2)))
    assert rest.all()
    assert out.all()


def test_directions_are_those_of_the_inverse_covariance() -> None:
    """The literal twin inverts the covariance of all features."""
    generator = torch.Generator().manual_seed(0)
    genuine = (torch.randn(50, 6, generator=generator) @ torch.randn(6, 6, generator=generator)).double()
    means = torch.randn(3, 6, generator=generator).double()
    found = Directions(genuine, means, [4, 2])
    scale = genuine.std(dim=0, correction=0) * torch.tensor([2.0] * 4 + [2.0**0.5] * 2).double()
    points, aims = (genuine - genuine.mean(dim=0)) / scale, (means - genuine.mean(dim=0)) / scale
    covariance = points.T @ points / 50
    covariance += torch.eye(6) * covariance.diagonal().mean()
    for weight, aim in zip(found.weight, aims, strict=True):
        expected = torch.linalg.inv(covariance) @ aim
        torch.testing.assert_close(weight, expected / (expected @ aim) / scale)
    torch.testing.assert_close(found.scores(means).diagonal(), torch.ones(3).double())
    torch.testing.assert_close(found.scores(genuine).mean(dim=0), torch.zeros(3).double())


def test_limits_are_halfway_or_never() -> None:
    genuine = torch.tensor([[0.1, 0.5], [0.2, 0.6]]).double().repeat(500, 1)
    imitated = torch.zeros(10, 2, 2).double()
    imitated[:, 0, 0], imitated[:, 1, 1] = 1.0, 0.4
    assert check_limits(HeldOutScores(genuine, imitated)).tolist() == [pytest.approx(0.6), NEVER]


def test_whitened_scores_are_uncorrelated_and_within_the_limit() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = (torch.randn(4000, 3, generator=generator) @ torch.randn(3, 3, generator=generator)).double() + 5
    white = (scores - scores.mean(dim=0)) @ whitening_of(scores)
    size = white.square().mean(dim=1).sqrt()
    assert float(torch.quantile(size, 0.999)) == pytest.approx(1 / MARGIN, rel=0.01)
    before, after = (torch.corrcoef(one.T).fill_diagonal_(0).abs().max() for one in (scores, white))
    assert float(after) < 0.8 * float(before)
