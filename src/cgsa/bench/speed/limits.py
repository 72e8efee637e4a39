"""Upper limit of the speed: how fast this machine multiplies matrices, measured at the sizes in use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.engines.precision import matmul_precision
from cgsa.nn.mlp import DiagnosisNet

PRODUCT = (256, 6144, 1024)
"""The paper's first layer and batch: rows, inner dimension, columns."""
REPEATS = 7


@dataclass(frozen=True)
class MatmulRates:
    """Rates of matrix products, in operations per second."""

    single: float
    """In single precision; on a GPU in TF32."""
    bfloat16: float | None = None
    """In bfloat16; None if it is not used."""

    def seconds(self, network: DiagnosisNet, windows: int, *, mixed: bool) -> float:
        """Return the time of all products of one batch at these rates, with all windows accepted.

        There are two forward passes and one backward pass without the gradient of the input. In mixed precision all
        layers except the first compute the gradients of their weights in bfloat16.
        """
        sizes = [layer.weight.numel() for layer in (*network.F, *network.G) if isinstance(layer, torch.nn.Linear)]
        first, rest = sizes[0], sum(sizes[1:])
        if not mixed or self.bfloat16 is None:
            return 2 * windows * (3 * first + 4 * rest) / self.single
        return 2 * windows * ((3 * first + 3 * rest) / self.single + rest / self.bfloat16)


def measure_matmul_rates(device: torch.device | str = "cpu") -> MatmulRates:
    """Time the products of the paper's first layer."""
    rows, inner, columns = PRODUCT
    left, right = torch.randn(rows, inner, device=device), torch.randn(columns, inner, device=device)
    operations = 2.0 * rows * inner * columns
    with matmul_precision("high", torch.device(device)):
        single = operations / _fastest(lambda: left @ right.T)
    if torch.device(device).type != "cpu":
        return MatmulRates(single)
    half, other_half = left.to(torch.bfloat16), right.to(torch.bfloat16)
    return MatmulRates(single, operations / _fastest(lambda: half @ other_half.T))


def _fastest(product: Callable[[], Tensor]) -> float:
    """Return the seconds of the fastest of several runs; the others were delayed by other work."""
    found = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        if product().is_cuda:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begun)
    return min(found)
