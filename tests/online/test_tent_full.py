from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.mlp import count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.tent_full import TentFull
from tests.machines import stream_windows
from tests.online.models import varied_bundle

LR = 1e-3


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle()
    assert callable(check)
    check(lambda: TentFull(source, {"lr": LR}), example_batches(source))


def test_every_weight_learns() -> None:
    source = varied_bundle()
    method = TentFull(source)
    for x in example_batches(source):
        method.step(x)
    for learnt, before in zip(method._model.parameters(), source.network.parameters(), strict=True):
        assert not torch.equal(learnt, before)


def test_one_forward_and_one_backward_pass() -> None:
    source = varied_bundle()
    method = TentFull(source)
    size = count_parameters(source.network)
    for x in example_batches(source, count=3):
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == (size, size)


def test_equals_the_description_window_by_window() -> None:
    source = varied_bundle()
    method = TentFull(source, {"lr": LR})
    model = deepcopy(source.network).requires_grad_()
    adam = make_adam(model.parameters(), LR)
    for x in example_batches(source):
        entropies: list[Tensor] = []
        predictions: list[Tensor] = []
        for window in x:
            p = torch.softmax(model(window[None])[0], dim=0)
            entropies.append(-sum((p_c * torch.log(p_c) for p_c in p), start=torch.zeros(())))
            predictions.append(p.detach())
        output = method.step(x)
        torch.testing.assert_close(output.probabilities, torch.stack(predictions), rtol=0, atol=1e-5)
        torch.testing.assert_close(output.evidence["entropy"], torch.stack(entropies).detach(), rtol=0, atol=1e-4)
        adam.zero_grad()
        torch.autograd.backward(torch.stack(entropies).mean())
        adam.step()
    for ours, literal in zip(method._model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, literal, rtol=0, atol=1e-2 * LR)


def test_entropy_falls_on_windows_seen_again() -> None:
    method = TentFull(varied_bundle(), {"lr": LR})
    x = stream_windows().gather(slice(0, 64))
    entropies = [float(method.step(x).evidence["entropy"].mean()) for _ in range(20)]
    assert entropies[-1] < 0.5 * entropies[0]


def test_a_stream_of_one_class_leads_to_collapse() -> None:
    """The known weakness: with one class after another, entropy alone draws the rest to the class at hand."""
    source = varied_bundle()
    method = TentFull(source, {"lr": 1e-2})
    x = torch.cat(example_batches(source))
    first = method.predict(x).argmax(dim=1)
    alone = int(first.mode().values)
    for _ in range(30):
        method.step(x[first == alone])
    drawn = method.predict(x[first != alone]).argmax(dim=1) == alone
    assert drawn.float().mean() > 0.5


def test_every_window_is_accepted() -> None:
    source = varied_bundle()
    output = TentFull(source).step(example_batches(source)[0])
    assert output.accepted is not None
    assert output.accepted.all()


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="lr 0; expected lr > 0"):
        TentFull(varied_bundle(), {"lr": 0.0})
