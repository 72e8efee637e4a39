"""What the machine allows: how fast it multiplies matrices, measured where it is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.engines.precision import matmul_precision
from cgsa.nn.mlp import DiagnosisNet

PRODUCT = (256, 6144, 1024)
"""The paper's first layer with its batch: rows, inner, columns."""
REPEATS = 7


@dataclass(frozen=True)
class MatmulRates:
    """Rates of matrix products, in operations a second."""

    single: float
    """In single precision; on a GPU in TF32."""
    sixteen_bits: float | None = None
    """In bfloat16; none where it is not used."""

    def seconds(self, network: DiagnosisNet, windows: int, *, mixed: bool) -> float:
        """Return what all products of one batch take at these rates, all windows learnt from.

        Two passes forward and one backward; the gradient of the input is nobody's business. In mixed precision all
        layers but the first find the gradients of their weights in sixteen bits.
        """
        sizes = [layer.weight.numel() for layer in (*network.F, *network.G) if isinstance(layer, torch.nn.Linear)]
        first, rest = sizes[0], sum(sizes[1:])
        if not mixed or self.sixteen_bits is None:
            return 2 * windows * (3 * first + 4 * rest) / self.single
        return 2 * windows * ((3 * first + 3 * rest) / self.single + rest / self.sixteen_bits)


def measure_matmul_rates(device: torch.device | str = "cpu") -> MatmulRates:
    """Multiply as the paper's first layer does, and return the rates."""
    rows, inner, columns = PRODUCT
    left, right = torch.randn(rows, inner, device=device), torch.randn(columns, inner, device=device)
    operations = 2.0 * rows * inner * columns
    with matmul_precision("high", torch.device(device)):
        single = operations / _quickest(lambda: left @ right.T)
    if torch.device(device).type != "cpu":
        return MatmulRates(single)
    half, other_half = left.to(torch.bfloat16), right.to(torch.bfloat16)
    return MatmulRates(single, operations / _quickest(lambda: half @ other_half.T))


def _quickest(product: Callable[[], Tensor]) -> float:
    """Return the seconds of the quickest of a few; others were held up by something else."""
    found = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        if product().is_cuda:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begun)
    return min(found)
