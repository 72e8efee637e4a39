"""How the residual response deviates along recordings: the scale on which tau selects windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from cgsa.errors import ConfigError

TAU = 0.05
"""tau_mu, the upper bound on the deviation of a consistent window (paper, section III-A3)."""
QUEUE = 50
"""W, the capacity of the response queue (paper, section III-A3)."""
SHARES = tuple(step / 20 for step in range(21))
"""Shares of windows for which a bundle carries the quantile of the deviation."""


def preceding_means(responses: Tensor, count: int) -> Tensor:
    """Return, for every response but the first ``count``, the mean of the ``count`` before it, eq. (9).

    Responses are (..., windows, conditions) in double precision. All means come from one running sum.
    """
    windows = responses.shape[-2] - count
    running = pad(responses.cumsum(dim=-2), (0, 0, 1, 0))
    return (running[..., count : count + windows, :] - running[..., :windows, :]) / count


@dataclass(frozen=True)
class UsualDeviation:
    """Residual response along the training recordings: its spread, and how windows deviate from the queue, eq. (10)."""

    windows: int
    """Number of windows whose deviation was measured."""
    spread: tuple[float, ...]
    """Standard deviation of the response to each condition."""
    quantiles: tuple[float, ...]
    """Deviations that :data:`SHARES` of the windows do not exceed."""

    def __post_init__(self) -> None:
        if len(self.quantiles) != len(SHARES) or list(self.quantiles) != sorted(self.quantiles):
            raise ConfigError(f"{len(self.quantiles)} quantiles; expected {len(SHARES)} that do not fall")

    @classmethod
    def measure(cls, stretches: Sequence[Tensor]) -> UsualDeviation | None:
        """Return what responses along uninterrupted recordings show; None if all are too short to fill the queue.

        Each of ``stretches`` has the responses of successive windows, (windows, conditions).
        """
        long_enough = [one.detach().double() for one in stretches if len(one) > QUEUE]
        if not long_enough:
            return None
        deviations = [(one[QUEUE:] - preceding_means(one, QUEUE)).abs().amax(dim=1) for one in long_enough]
        deviation, spread = torch.cat(deviations), torch.cat(long_enough).std(dim=0)
        quantiles = np.quantile(deviation.cpu().numpy(), SHARES)
        return cls(len(deviation), tuple(spread.tolist()), tuple(np.maximum.accumulate(quantiles).tolist()))

    def at(self, share: float) -> float:
        """Return the deviation that this share of the windows does not exceed."""
        return float(np.interp(share, SHARES, self.quantiles))

    def share_beyond(self, limit: float) -> float:
        """Return about which share of the windows deviates by ``limit`` or more."""
        if limit <= self.quantiles[0]:
            return 1.0
        if limit > self.quantiles[-1]:
            return 0.0
        return 1.0 - float(np.interp(limit, self.quantiles, SHARES))

    def describe(self, tau: float = TAU) -> str:
        """Return in one line what the residual criterion would do at ``tau`` on the training recordings."""
        median, spread = self.at(0.5), "/".join(f"{one:.2g}" for one in self.spread)
        return (
            f"at tau {tau:.3g}, residual guidance rejects {self.share_beyond(tau):.0%} of the training windows "
            f"(median deviation {median:.2g}, {median / tau:.2g} of tau; spread of the response {spread})"
        )
