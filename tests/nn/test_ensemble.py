from __future__ import annotations

from dataclasses import replace
from math import exp, log

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.config import as_table
from cgsa.errors import ConfigError
from cgsa.nn.ensemble import LEAST_LOG_PROBABILITY, Ensemble, EnsembleConfig, Heads, combine
from cgsa.nn.orders import stretch
from cgsa.nn.spectra import FeatureConfig
from cgsa.nn.trees import DEPTH, LEAST_SHARE, NODES, TREES, TreeHead
from tests.machines import CLASSES, ENSEMBLE, ENSEMBLE_SPEC, ensemble_bundle, ensemble_windows, speed_bundle


def random_ensemble(classifiers: tuple[str, ...] = ENSEMBLE.classifiers) -> Ensemble:
    ensemble = Ensemble(replace(ENSEMBLE, classifiers=classifiers), 2, ENSEMBLE_SPEC, len(CLASSES))
    generator = torch.Generator().manual_seed(0)
    for buffer in (buffer for head in ensemble.head_modules() for buffer in head.buffers()):
        buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
    for head in ensemble.head_modules():
        assert head.trees is not None
        for indices, most in ((head.trees.feature, len(head.healthy)), (head.trees.child, NODES)):
            indices.copy_(torch.randint(most, indices.shape, generator=generator))
        head.trees.share.copy_(head.trees.share.softmax(dim=2))
    ensemble.pool.copy_(torch.rand(len(ensemble.pool), generator=generator))
    return ensemble


def windows(count: int = 5) -> torch.Tensor:
    return torch.randn(count, 2, ENSEMBLE_SPEC.length, generator=torch.Generator().manual_seed(1))


def test_the_ensemble_against_loops() -> None:
    """Every member one after the other: linear ones, then the kernel classifier and the trees of the same features."""
    ensemble, x = random_ensemble(), windows()
    features = [one.double().numpy() for one in ensemble.extract(x)]
    scores = np.zeros((len(x), len(ensemble.config.members), len(CLASSES)))
    for w in range(len(x)):
        member = 0
        for head, (place, _) in zip(ensemble.head_modules(), ensemble.config.heads, strict=True):
            relative = features[place][w] - head.healthy.double().numpy()
            weight, bias = head.weight.double().numpy(), head.bias.double().numpy()
            for number in range(2):
                for c in range(len(CLASSES)):
                    row = number * len(CLASSES) + c
                    scores[w, member, c] = weight[row] @ relative + bias[row]
                member += 1
            kernel = head.kernel
            assert kernel is not None
            axes = relative @ kernel.axes.double().numpy()
            for c in range(len(CLASSES)):
                total = float(kernel.bias[c])
                for wave in range(len(kernel.offset)):
                    phase = axes @ kernel.frequencies[:, wave].double().numpy() + float(kernel.offset[wave])
                    total += float(kernel.weight[c, wave]) * np.cos(phase) * np.sqrt(2 / len(kernel.offset))
                scores[w, member, c] = total
            assert head.trees is not None
            scores[w, member + 1] = literal_trees(head.trees, relative)
            member += 2
    np.testing.assert_allclose(ensemble.member_scores(ensemble.extract(x)).numpy(), scores, rtol=1e-3, atol=1e-3)
    together = ensemble.member_scores(ensemble.extract(x), trees=ensemble.stacked_trees())
    np.testing.assert_allclose(together.numpy(), scores, rtol=1e-3, atol=1e-3)
    expected = literal_combine(torch.from_numpy(scores), ensemble.pool)
    np.testing.assert_allclose(ensemble(x).numpy(), expected, rtol=1e-3, atol=1e-2)


def literal_trees(head: TreeHead, relative: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    feature, threshold, child, share = (one.numpy() for one in (head.feature, head.threshold, head.child, head.share))
    total = np.zeros(share.shape[2])
    for tree in range(TREES):
        node = 0
        for _ in range(DEPTH):
            above = np.float32(relative[feature[tree, node]]) > threshold[tree, node]
            node = child[tree, node, int(above)]
        total += share[tree, node] / TREES
    return np.asarray(np.log((1 - LEAST_SHARE) * total + LEAST_SHARE / len(total)))


def literal_combine(scores: torch.Tensor, pool: torch.Tensor) -> list[list[float]]:
    found = []
    for window in scores.tolist():
        total = [0.0] * len(window[0])
        for weight, member in zip(pool.tolist(), window, strict=True):
            most = max(member)
            size = most + log(sum(exp(score - most) for score in member))
            for c, score in enumerate(member):
                total[c] += weight * max(LEAST_LOG_PROBABILITY, score - size)
        found.append(total)
    return found


@given(st.integers(1, 5), st.integers(1, 6), st.integers(2, 5), st.floats(0.1, 100), st.integers(0, 99))
def test_combination_against_loops(count: int, members: int, classes: int, scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(count, members, classes, generator=generator, dtype=torch.float64)
    pool = torch.rand(members, generator=generator, dtype=torch.float64)
    np.testing.assert_allclose(combine(scores, pool).numpy(), literal_combine(scores, pool), rtol=1e-9, atol=1e-9)


def test_a_single_member_cannot_overrule_all_others() -> None:
    scores = torch.zeros(1, 4, 2)
    scores[0, 0] = torch.tensor([1e6, 0.0])
    scores[0, 1:] = torch.tensor([0.0, 5.0])
    assert combine(scores, torch.full((4,), 0.25)).argmax() == 1


def test_members_are_named_in_the_order_of_their_scores() -> None:
    """Each member is made more certain of a class; the scores at its name say so."""
    ensemble = random_ensemble()
    assert ensemble.config.members[:5] == (
        "spectrum 32, logistic",
        "spectrum 32, lda",
        "spectrum 32, kernel",
        "spectrum 32, trees",
        "cross_spectrum 16, logistic",
    )
    features = ensemble.extract(windows(1))
    for number, name in enumerate(ensemble.config.members):
        kind, place = divmod(number, 4)
        changed = random_ensemble()
        head = changed.head_modules()[kind]
        if name.endswith("kernel"):
            assert head.kernel is not None
            head.kernel.bias[1] += 1000
        elif name.endswith("trees"):
            assert head.trees is not None
            head.trees.share[..., 1] += 1
        else:
            head.bias[place * len(CLASSES) + 1] += 1000
        differs = changed.member_scores(features) != ensemble.member_scores(features)
        assert differs.nonzero().tolist() == [[0, number, 1]]


def test_the_scores_of_an_ensemble_are_those_of_its_members_combined() -> None:
    ensemble, x = random_ensemble(), windows()
    assert torch.equal(ensemble.combine(ensemble.member_scores(ensemble.extract(x))), ensemble(x))


def test_the_healthy_scores_are_those_of_the_mean_healthy_machine() -> None:
    ensemble = random_ensemble()
    first = 0
    for head, (place, _) in zip(ensemble.head_modules(), ensemble.config.heads, strict=True):
        features = ensemble.extract(windows(1))
        features[place] = head.healthy[None]
        own = slice(first, first + len(ensemble.config.classifiers))
        torch.testing.assert_close(ensemble.healthy_scores()[own], ensemble.member_scores(features)[0, own])
        first = own.stop


def test_large_common_values_cost_no_digits() -> None:
    head = Heads(3, ("lda",), 2)
    head.healthy.fill_(1e4)
    head.weight.copy_(torch.tensor([[1e3, -1e3, 0.0], [0.0, 0.0, 1.0]]))
    step = 2.0**-8
    found = head(torch.tensor([[1e4 + step, 1e4, 1e4]]))
    assert found.tolist() == [[[1e3 * step, 0.0]]]


def test_channels_are_scaled_by_the_training_samples() -> None:
    ensemble = random_ensemble()
    samples = torch.stack([torch.tensor([1.0, 3.0] * 500), torch.full((1000,), 5.0)])
    ensemble.fit_channels(samples)
    assert ensemble.mean.tolist() == [[2.0], [5.0]]
    assert ensemble.deviation.tolist() == [[1.0], [1.0]]
    for features in ensemble.feature_modules():
        assert float(features.floor[0]) == pytest.approx(1e-8 * float(features.taper.square().sum()))


def test_a_fitted_ensemble_knows_its_training() -> None:
    source = ensemble_windows(step=50)
    scores = ensemble_bundle().require_ensemble()(source.gather(torch.arange(len(source))))
    assert float((scores.argmax(dim=1) == source.labels).double().mean()) > 0.97


def test_windows_without_a_known_speed_get_the_scores_of_an_ensemble_without_members_in_orders() -> None:
    plain, ensemble = ensemble_bundle().require_ensemble(), speed_bundle().require_ensemble()
    x = windows(6)
    features = ensemble.extract(x)
    expected = plain.combine(plain.member_scores(features))
    assert torch.equal(ensemble(x), expected)
    some = torch.tensor([[5.0], [torch.nan], [2.5], [0.0], [10.0], [torch.nan]], dtype=torch.float64)
    factors = ensemble.speed_factors(some)
    assert factors is not None
    unknown = [1, 3, 5]
    found = ensemble.combine(ensemble.member_scores(features, factors), factors)
    assert torch.equal(found[unknown], expected[unknown])
    assert not torch.isclose(found[[0, 2, 4]], expected[[0, 2, 4]]).all(dim=1).any()
    assert ensemble.speed_factors(some[unknown]) is None
    assert ensemble.speed_factors(None) is None
    assert plain.speed_factors(some) is None


def test_members_in_orders_against_loops() -> None:
    """Each window alone, with its lines moved by hand and the classifiers of the group asked directly."""
    ensemble, x = speed_bundle().require_ensemble(), windows(4)
    config = ensemble.config
    assert config.order_members == tuple(f"envelope 8 in orders, {name}" for name in config.classifiers)
    assert config.speed is not None
    speeds = torch.tensor([[5.0], [2.5], [10.0], [4.0]], dtype=torch.float64)
    features = ensemble.extract(x)
    found = ensemble.member_scores(features, ensemble.speed_factors(speeds))
    pooled = ensemble.combine(found, ensemble.speed_factors(speeds))
    [place], [head] = config.order_heads, ensemble.order_head_modules()
    bins = config.features[place].envelope_bins
    for window, [speed] in enumerate(speeds.tolist()):
        moved = stretch(features[place][window : window + 1], bins, torch.tensor([config.speed.reference / speed]))
        plain = ensemble.member_scores([one[window : window + 1] for one in features])[0, : len(config.members)]
        expected = torch.cat([plain, head(moved)[0]])
        torch.testing.assert_close(found[window], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            pooled[window].tolist(), literal_combine(expected[None], ensemble.speed_pool)[0], rtol=1e-3, atol=1e-2
        )


def test_an_ensemble_without_a_speed_is_described_as_before() -> None:
    assert "speed" not in as_table(ENSEMBLE)
    assert not any("order" in name or "speed" in name for name in ensemble_bundle().require_ensemble().state_dict())


@pytest.mark.parametrize(
    ("features", "classifiers", "message"),
    [
        ((), ("lda",), "at least one kind of features and one classifier"),
        (("spectrum",), (), "at least one kind of features and one classifier"),
        (("spectrum", "spectrum"), ("lda",), "are repeated"),
        (("spectrum",), ("lda", "lda"), "are repeated"),
        (("spectrum",), ("svm",), "classifiers svm; expected some of logistic, lda, kernel, trees"),
        (("spectrum",), ("kernel", "lda"), "in this order"),
    ],
)
def test_impossible_ensembles_are_refused(
    features: tuple[str, ...], classifiers: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        EnsembleConfig(tuple(FeatureConfig(kind, 16) for kind in features), classifiers)


def test_too_many_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="65 kinds of features; expected at most 64"):
        EnsembleConfig(tuple(FeatureConfig("spectrum", frame) for frame in range(8, 73)))
