from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.cofa import Cofa
from tests.machines import stream_windows
from tests.online.models import varied_bundle


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle()
    assert callable(check)
    check(lambda: Cofa(source), example_batches(source))


def test_one_forward_pass_and_no_backward_pass() -> None:
    source = varied_bundle()
    method = Cofa(source)
    for x in example_batches(source, count=2):
        with count_volume() as volume:
            output = method.step(x)
        assert (volume.forward, volume.backward) == (count_parameters(source.network), 0)
        assert output.accepted is None


@dataclass
class LiteralCofa:
    """COFA as in its paper: one window at a time, features averaged, then classified."""

    source: ModelBundle
    previous: Tensor | None = None

    def step(self, window: Tensor) -> tuple[Tensor, bool]:
        network = self.source.network
        feature = network.features(window[None])
        before = feature if self.previous is None else self.previous
        self.previous = feature
        own = network.classify(feature).softmax(dim=1)[0]
        averaged = network.classify((feature + before) / 2).softmax(dim=1)[0]
        # Equal up to rounding is no gain: the features of a first window are averaged with themselves.
        better = float(averaged.max()) > float(own.max()) + 1e-6
        return (averaged if better else own), better


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_equals_the_description_for_any_batches(sizes: list[int]) -> None:
    source = varied_bundle()
    method, literal = Cofa(source), LiteralCofa(source)
    x = torch.cat(example_batches(source, count=10))
    for begin, end in pairwise(accumulate(sizes, initial=0)):
        expected = torch.stack([literal.step(window)[0] for window in x[begin:end]])
        torch.testing.assert_close(method.step(x[begin:end]).probabilities, expected, rtol=0, atol=1e-5)


def test_some_windows_are_averaged_and_some_are_not() -> None:
    source = varied_bundle()
    averaged = Cofa(source).step(stream_windows().gather(slice(0, 256))).evidence["averaged"]
    literal = LiteralCofa(source)
    expected = [literal.step(window)[1] for window in stream_windows().gather(slice(0, 256))]
    assert averaged.tolist() == expected
    assert 0 < averaged.sum() < 256
    assert not averaged[0]


def test_never_less_confident_than_the_model() -> None:
    source = varied_bundle()
    x = torch.cat(example_batches(source))
    output = Cofa(source).step(x)
    assert (output.probabilities.amax(dim=1) >= source.network(x).softmax(dim=1).amax(dim=1) - 1e-6).all()


def test_the_window_before_enters_without_its_average() -> None:
    """Only the last window counts: whatever came before it leaves no trace."""
    source = varied_bundle()
    first, second, x = example_batches(source, count=3)
    long, short = Cofa(source), Cofa(source)
    long.step(first)
    long.step(second)
    short.step(second[-1:])
    torch.testing.assert_close(long.step(x).probabilities, short.step(x).probabilities, rtol=0, atol=1e-6)


def test_state_without_the_last_window_is_refused() -> None:
    method = Cofa(varied_bundle())
    state = method.state_dict()
    del state["memory.last_scores"]
    with pytest.raises(BundleError, match=r"no memory\.last_scores"):
        method.load_state_dict(state)


def test_the_method_has_no_settings() -> None:
    with pytest.raises(ConfigError, match="no such setting"):
        Cofa(varied_bundle(), {"lr": 1e-3})
