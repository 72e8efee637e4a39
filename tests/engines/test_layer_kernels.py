"""GPU kernels, interpreted on a CPU, compared with tensor operations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.engines import layer_kernels as kernels
from cgsa.engines.stacked_adam import BETAS, EPSILON, StackedAdam


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
    for adam in (ours, expected):
        adam.steps += 1000 * torch.arange(len(learns))
    gradient = torch.randn(len(learns), numbers, generator=torch.Generator().manual_seed(seed + 1))
    expected.step(gradient, torch.tensor(learns))
    kernels.launch_adam_step(
        (ours.weights, ours.means, ours.squares),
        gradient / 2,
        scales=torch.full((len(learns),), 2.0),
        steps_taken=ours.steps,
        learns=torch.tensor(learns),
        lr=1e-3,
        betas=BETAS,
        epsilon=EPSILON,
    )
    for name in ("weights", "means", "squares"):
        torch.testing.assert_close(getattr(ours, name), getattr(expected, name))


@settings(max_examples=10, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    length=st.integers(2, 150),
    windows=st.integers(1, 70),
    seed=st.integers(0, 99),
)
@pytest.mark.parametrize("shared", ["samples", "starts", "nothing"])
def test_windows_are_laid_out(shape: tuple[int, int], length: int, windows: int, seed: int, shared: str) -> None:
    machines, channels = shape
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randn(1 if shared == "samples" else machines, channels, 300, generator=generator)
    rows = 1 if shared == "starts" else machines
    starts = torch.randint(300 - length + 1, (rows, windows), generator=generator)
    mean, deviation = torch.randn(channels, 1), torch.rand(channels, 1) + 0.5
    windows_out, transposed = kernels.launch_window_layout(
        samples, starts, mean, deviation, length=length, transposed_dtype=torch.bfloat16
    )
    scaled = ((samples - mean) / deviation).expand(machines, -1, -1)
    expected = [
        torch.stack([own[:, start : start + length].flatten() for start in begins])
        for own, begins in zip(scaled, starts.expand(machines, -1).tolist(), strict=True)
    ]
    torch.testing.assert_close(windows_out, torch.stack(expected))
    assert transposed.dtype == torch.bfloat16
    torch.testing.assert_close(transposed.float(), windows_out.transpose(1, 2).contiguous(), rtol=2**-7, atol=0)
    _, exact = kernels.launch_window_layout(
        samples, starts, mean, deviation, length=length, transposed_dtype=torch.float32
    )
    assert torch.equal(exact, windows_out.transpose(1, 2))


@pytest.mark.parametrize("rectify", [True, False])
def test_each_machine_has_its_own_bias(*, rectify: bool) -> None:
    values, rows = torch.randn(3, 40, 50), torch.randn(3, 80)
    bias = rows[:, 20:70]
    expected = values + bias[:, None, :]
    kernels.launch_add_bias(values, bias, rectify=rectify)
    torch.testing.assert_close(values, expected.clamp(min=0) if rectify else expected)


@pytest.mark.parametrize(("windows", "units"), [(1, 1), (70, 130), (256, 64)])
def test_sums_over_windows(windows: int, units: int) -> None:
    values, rows = torch.randn(2, windows, units), torch.zeros(2, units + 20)
    kernels.launch_sum_over_windows(values, rows[:, 10:-10])
    torch.testing.assert_close(rows[:, 10:-10], values.sum(dim=1))
    assert not rows[:, :10].any()
    assert not rows[:, -10:].any()


@pytest.mark.parametrize(("windows", "units"), [(2, 1), (100, 20), (256, 128)])
def test_batch_norm_and_relu_forward_and_backward(windows: int, units: int) -> None:
    generator = torch.Generator().manual_seed(0)
    values = (3 * torch.randn(2, windows, units, generator=generator) + 1).requires_grad_()
    norms = [torch.nn.BatchNorm1d(units, affine=False) for _ in range(2)]
    expected = torch.stack([norm(row).relu() for norm, row in zip(norms, values, strict=True)])
    means, variances = torch.zeros(2, units), torch.ones(2, units)
    momenta = torch.tensor([0.1, 0.0])
    out, normed, factors = kernels.launch_batch_norm_relu(values.detach(), means, variances, momenta, norms[0].eps)
    torch.testing.assert_close(out, expected.detach())
    torch.testing.assert_close(means, torch.stack([norms[0].get_buffer("running_mean"), torch.zeros(units)]))
    torch.testing.assert_close(variances, torch.stack([norms[0].get_buffer("running_var"), torch.ones(units)]))
    slope = torch.randn(2, windows, units, generator=generator)
    (gradient,) = torch.autograd.grad(expected, values, slope)
    found = kernels.launch_batch_norm_relu_backward(slope, out, normed, factors)
    torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-5)
