from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from cgsa.nn.ensemble import LEAST_LOG_PROBABILITY
from cgsa.offline.pool import EVIDENCE, LABEL_SMOOTHING, SCALES, equal_weights, fit_pool, fit_scale

Held = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def held_out(quality: tuple[float, ...] = (3.0, 1.0, 0.2), recordings: int = 12, seed: int = 0) -> Held:
    """Scores of members, labels and recordings; recordings differ in length."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.cat([torch.full((3 + number % 5,), 2 * number) for number in range(recordings)])
    labels = numbers // 2 % 3
    noise = torch.randn(len(labels), len(quality), 3, generator=generator)
    right = torch.nn.functional.one_hot(labels, 3)[:, None]
    return 1.5 * noise + torch.tensor(quality)[:, None] * right, labels, numbers


def literal_loss(pooled: np.ndarray, labels: list[int], recordings: list[int]) -> float:
    """Cross entropy with smoothed labels: the mean over recordings of the mean over their windows."""
    by_recording: dict[int, list[float]] = {}
    for scores, label, recording in zip(pooled, labels, recordings, strict=True):
        logs = log_softmax(scores)
        classes = len(scores)
        wanted = [LABEL_SMOOTHING / classes + (1 - LABEL_SMOOTHING) * (c == label) for c in range(classes)]
        misfit = -sum(share * logs[c] for c, share in enumerate(wanted))
        by_recording.setdefault(recording, []).append(misfit)
    return float(np.mean([np.mean(misfits) for misfits in by_recording.values()]))


def literal_pooled(scores: torch.Tensor, pool: np.ndarray) -> np.ndarray:
    votes = np.maximum(log_softmax(scores.double().numpy(), axis=2), LEAST_LOG_PROBABILITY)
    return np.asarray([sum(weight * vote for weight, vote in zip(pool, window, strict=True)) for window in votes])


def test_weights_against_loops() -> None:
    scores, labels, recordings = held_out()
    votes = np.maximum(log_softmax(scores.double().numpy(), axis=2), LEAST_LOG_PROBABILITY)
    likelihood = []
    for member in range(3):
        by_recording: dict[int, list[float]] = {}
        for window, (label, recording) in enumerate(zip(labels.tolist(), recordings.tolist(), strict=True)):
            by_recording.setdefault(recording, []).append(float(votes[window, member, label]))
        likelihood.append(np.exp(EVIDENCE * sum(np.mean(logs) for logs in by_recording.values())))
    expected = np.array(likelihood) / sum(likelihood)
    scale = fit_scale(scores, labels, recordings, torch.from_numpy(expected))
    np.testing.assert_allclose(fit_pool(scores, labels, recordings).numpy(), scale * expected, rtol=1e-9)


def test_scale_against_loops() -> None:
    scores, labels, recordings = held_out()
    pool = equal_weights(3)
    pooled = literal_pooled(scores, pool.numpy())
    losses = [literal_loss(scale * pooled, labels.tolist(), recordings.tolist()) for scale in SCALES]
    assert fit_scale(scores, labels, recordings, pool) == SCALES[int(np.argmin(losses))]
    assert SCALES[0] < fit_scale(scores, labels, recordings, pool) < SCALES[-1]


def test_better_members_get_more_weight_the_more_evidence_there_is() -> None:
    few, many = (fit_pool(*held_out(recordings=count)) for count in (6, 60))
    for pool in (few, many):
        assert pool[0] > pool[1] > pool[2]
    assert many[2] / many[0] < few[2] / few[0]
    firm = fit_pool(*held_out(), evidence=1e-6)
    torch.testing.assert_close(firm / firm.sum(), equal_weights(3), rtol=1e-3, atol=0)


@settings(max_examples=25)
@given(st.lists(st.floats(-2, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_weights_are_finite_and_not_negative(quality: list[float], seed: int) -> None:
    pool = fit_pool(*held_out(tuple(quality), recordings=5, seed=seed))
    assert pool.shape == (len(quality),)
    assert bool(torch.isfinite(pool).all())
    assert bool((pool >= 0).all())
    torch.testing.assert_close(equal_weights(len(quality)).sum(), torch.tensor(1.0).double())


@settings(max_examples=25)
@given(st.integers(2, 5), st.floats(-1, 4), st.integers(0, 99))
def test_equal_members_get_equal_weights(members: int, quality: float, seed: int) -> None:
    scores, labels, recordings = held_out((quality,), recordings=5, seed=seed)
    pool = fit_pool(scores.repeat(1, members, 1), labels, recordings)
    torch.testing.assert_close(pool, pool[:1].expand(members), rtol=1e-6, atol=0)


def test_weights_do_not_depend_on_the_order_or_the_length_of_recordings() -> None:
    scores, labels, recordings = held_out()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    pool = fit_pool(scores, labels, recordings)
    torch.testing.assert_close(fit_pool(scores[order], labels[order], recordings[order]), pool, rtol=1e-3, atol=1e-4)
    # One recording five times as long, with the same windows.
    own = recordings == 0
    longer = [torch.cat([one, *[one[own]] * 4]) for one in (scores, labels, recordings)]
    torch.testing.assert_close(fit_pool(longer[0], longer[1], longer[2]), pool, rtol=1e-3, atol=1e-4)


def test_certain_members_stay_uncertain() -> None:
    """Members that are never wrong where they were held out may be wrong elsewhere."""
    labels = torch.arange(12) % 3
    scores = 50.0 * torch.nn.functional.one_hot(labels, 3)[:, None].repeat(1, 2, 1).float()
    pool = fit_pool(scores, labels, torch.arange(12))
    probabilities = torch.softmax(torch.from_numpy(literal_pooled(scores, pool.numpy())), dim=1)
    assert 0.99 < float(probabilities.amax(dim=1).max()) < 1 - LABEL_SMOOTHING / 3
