from __future__ import annotations

from math import exp

import pytest
import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.lame import Lame, nearest_neighbours, smooth
from tests.machines import stream_windows
from tests.online.models import varied_bundle


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle()
    assert callable(check)
    check(lambda: Lame(source), example_batches(source))


def test_one_forward_pass_and_no_backward_pass() -> None:
    source = varied_bundle()
    with count_volume() as volume:
        output = Lame(source).step(example_batches(source)[0])
    assert (volume.forward, volume.backward) == (count_parameters(source.network), 0)
    assert output.accepted is None


def literal_lame(source: ModelBundle, x: Tensor, k: int) -> list[list[float]]:
    """LAME as in its paper, one window, neighbour and class at a time."""
    features = source.network.features(x)
    q = source.network.classify(features).softmax(dim=1).double().tolist()
    unit = [feature / feature.norm() for feature in features.double()]
    N, K = len(q), len(q[0])
    neighbours = []
    for i in range(N):
        others = sorted((float((unit[i] - unit[j]).norm()), j) for j in range(N) if j != i)
        neighbours.append([j for _, j in others[:k]])
    z = q
    for _ in range(100):
        new = []
        for i in range(N):
            row = [q[i][c] * exp(sum(z[j][c] for j in neighbours[i])) for c in range(K)]
            new.append([value / sum(row) for value in row])
        z = new
    return z


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("size", [1, 2, 4, 5, 6, 7, 32])
def test_equals_the_description(size: int, k: int) -> None:
    source = varied_bundle()
    method = Lame(source, {"neighbours": k})
    moved = 0.0
    for batch in example_batches(source, count=3):
        x = batch[:size]
        z = method.step(x).probabilities
        torch.testing.assert_close(z, torch.tensor(literal_lame(source, x, k)), rtol=0, atol=1e-4)
        moved += float((z - source.network(x).softmax(dim=1)).abs().max())
    assert moved > 0.05 or size == 1


def test_a_single_window_keeps_the_models_probabilities() -> None:
    source = varied_bundle()
    x = example_batches(source)[0][:1]
    torch.testing.assert_close(Lame(source).step(x).probabilities, source.network(x).softmax(dim=1))


def test_no_window_is_its_own_neighbour_even_among_equals() -> None:
    nearest = nearest_neighbours(torch.ones(8, 4), 5)
    for window, others in enumerate(nearest.tolist()):
        assert len(set(others) - {window}) == 5


def test_neighbours_are_found_by_angle_not_length() -> None:
    features = torch.tensor([[1.0, 0.0], [100.0, 1.0], [0.9, 0.5]])
    assert nearest_neighbours(features, 1)[0].tolist() == [1]


def test_an_uncertain_window_follows_its_neighbours() -> None:
    """What the method is for: within a run of one class, a window that was misread is put right."""
    q = torch.tensor([[0.9, 0.05, 0.05]] * 6 + [[0.4, 0.5, 0.1]])
    others = torch.tensor([[j for j in range(7) if j != i] for i in range(7)])
    assert smooth(q.log(), others, 100, 1e-6).argmax(dim=1).tolist() == [0] * 7


def test_updates_reach_a_fixed_point() -> None:
    source = varied_bundle()
    features = source.network.features(stream_windows().gather(slice(0, 256)))
    log_q = source.network.classify(features).log_softmax(dim=1)
    nearest = nearest_neighbours(features, 5)
    z = smooth(log_q, nearest, 1000, 1e-6)
    torch.testing.assert_close(torch.softmax(log_q + z[nearest].sum(dim=1), dim=1), z, rtol=0, atol=1e-5)


def test_updates_are_bounded() -> None:
    source = varied_bundle()
    features = source.network.features(stream_windows().gather(slice(0, 256)))
    log_q = source.network.classify(features).log_softmax(dim=1)
    nearest = nearest_neighbours(features, 5)
    z = log_q.exp()
    for iterations in range(1, 4):
        before, z = z, torch.softmax(log_q + z[nearest].sum(dim=1), dim=1)
        assert (z - before).abs().max() > 1e-6  # it has not settled yet
        assert torch.equal(smooth(log_q, nearest, iterations, 1e-6), z)


@pytest.mark.parametrize("settings", [{"neighbours": 0}, {"iterations": 0}, {"tolerance": -1e-6}])
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected neighbours >= 1, iterations >= 1 and tolerance >= 0"):
        Lame(varied_bundle(), settings)
