"""Kernels of the GPU, interpreted on a CPU, against tensor operations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.nn import kernels
from cgsa.nn.stacked_adam import BETAS, EPSILON, StackedAdam


def filled(rows: int, numbers: int, seed: int) -> StackedAdam:
    generator = torch.Generator().manual_seed(seed)
    adam = StackedAdam(torch.randn(rows, numbers, generator=generator), 1e-3)
    adam.means.normal_(generator=generator)
    adam.squares.uniform_(generator=generator)
    return adam


@settings(max_examples=10, deadline=None)
@given(numbers=st.integers(1, 3000), learns=st.lists(st.booleans(), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_step_of_adam(numbers: int, learns: list[bool], seed: int) -> None:
    ours, expected = filled(len(learns), numbers, seed), filled(len(learns), numbers, seed)
    gradient = torch.randn(len(learns), numbers, generator=torch.Generator().manual_seed(seed + 1))
    expected.step(gradient, torch.tensor(learns))
    kernels.step_rows(
        (ours.weights, ours.means, ours.squares),
        gradient,
        rates=torch.full((len(learns),), 1e-3 / (1 - BETAS[0])),
        corrections=torch.full((len(learns),), (1 - BETAS[1]) ** -0.5),
        learns=torch.tensor(learns),
        betas=BETAS,
        epsilon=EPSILON,
    )
    for name in ("weights", "means", "squares"):
        torch.testing.assert_close(getattr(ours, name), getattr(expected, name))


@settings(max_examples=10, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    length=st.integers(2, 150),
    step=st.integers(1, 40),
    windows=st.integers(1, 70),
)
def test_windows_laid_out(shape: tuple[int, int], length: int, step: int, windows: int) -> None:
    machines, channels = shape
    samples = torch.randn(machines, channels, (windows - 1) * step + length)
    mean, deviation = torch.randn(channels, 1), torch.rand(channels, 1) + 0.5
    laid, turned = kernels.lay_out(samples, mean, deviation, length, step)
    expected = ((samples - mean) / deviation).unfold(2, length, step).transpose(1, 2).flatten(2)
    torch.testing.assert_close(laid, expected)
    assert turned.dtype == torch.bfloat16
    torch.testing.assert_close(turned.float(), laid.transpose(1, 2).contiguous(), rtol=2**-7, atol=0)


@pytest.mark.parametrize("rectify", [True, False])
def test_a_bias_for_each_machine(*, rectify: bool) -> None:
    values, rows = torch.randn(3, 40, 50), torch.randn(3, 80)
    bias = rows[:, 20:70]
    expected = values + bias[:, None, :]
    kernels.add_bias(values, bias, rectify=rectify)
    torch.testing.assert_close(values, expected.clamp(min=0) if rectify else expected)


@pytest.mark.parametrize(("windows", "units"), [(1, 1), (70, 130), (256, 64)])
def test_sums_over_windows(windows: int, units: int) -> None:
    values, rows = torch.randn(2, windows, units), torch.zeros(2, units + 20)
    kernels.sum_windows(values, rows[:, 10:-10])
    torch.testing.assert_close(rows[:, 10:-10], values.sum(dim=1))
    assert not rows[:, :10].any()
    assert not rows[:, -10:].any()
