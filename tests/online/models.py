"""Source models for the tests of methods, which predict all classes with varying confidence."""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import cross_entropy

from cgsa.data.windows import Windows
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.optim import make_adam
from cgsa.online.checks import example_batches
from tests.machines import bundle, training_windows


def varied_bundle(scale: float = 3.0) -> ModelBundle:
    """The untrained model of ``bundle``, its scores centred and scaled: random windows fall into every class."""
    source = bundle()
    last = source.network.G[-1]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        last.bias.sub_(source.network(torch.cat(example_batches(source))).mean(dim=0))
        for parameter in last.parameters():
            parameter.mul_(scale)
    return source


@cache
def source_windows() -> Windows:
    return training_windows()


@cache
def trained_bundle(steps: int = 20) -> ModelBundle:
    """A bundle after a short training: mostly correct, with varying confidence."""
    model, windows = bundle(), source_windows()
    network = model.network.requires_grad_()
    optimizer = make_adam(network.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        index = torch.randint(len(windows), (128,), generator=generator)
        loss = cross_entropy(network(windows.gather(index)), windows.labels[index])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    network.requires_grad_(requires_grad=False)
    return model
