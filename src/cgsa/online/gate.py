"""The reliability gate of CGSA: which windows the student may learn from (paper, section II-C)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.engines.base import ResponseQueue
from cgsa.errors import BundleError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.deviation import QUEUE, TAU, preceding_means


@dataclass(frozen=True, eq=False)
class Selection:
    """What the gate finds for each window of a batch."""

    accepted: Tensor
    """The reliable set R, eq. (11)."""
    queue_mean: Tensor
    """Mean of the W responses before the window, eq. (9), per condition; NaN until the queue is full."""
    deviation: Tensor
    """Distance of the window's response from it, eq. (10), the largest over all conditions; NaN until it is full."""


class ReliabilityGate:
    """The two criteria of eq. (11) over a queue of recent residual responses.

    With several conditions, a window is consistent if its response to each of them is, so the largest deviation is
    compared with tau.

    The gate holds only settings. Callers keep the queue, so that it is part of their state.

    Parameters
    ----------
    queue
        W, the capacity of the queue.
    tau
        tau_mu; a window whose response deviates less is consistent.
    min_confidence
        epsilon_p; a pseudo-label must have a higher confidence than this.
    by_residual, by_confidence
        Which criteria apply. Without the residual one there is no warm-up either, since nothing depends on the queue.
    """

    def __init__(
        self,
        queue: int = QUEUE,
        tau: float = TAU,
        min_confidence: float = 0.9,
        *,
        by_residual: bool = True,
        by_confidence: bool = True,
    ) -> None:
        self.capacity = queue
        self.tau = tau
        self.min_confidence = min_confidence
        self.by_residual = by_residual
        self.by_confidence = by_confidence

    def select(self, queue: ResponseQueue, response: Tensor, confidence: Tensor) -> tuple[Selection, ResponseQueue]:
        """Judge windows in their order; return the result and the queue after them.

        Responses are (windows, conditions) and confidences (windows), both with a leading dimension of machines if the
        queue has one: each machine is judged by its own queue. Every response enters the queue, whether its window is
        accepted or not.

        The queue moves by one response per window. Its means come from one running sum over the queue and the batch, in
        double precision. The sum starts afresh with each batch, so no error accumulates along the stream.
        """
        windows = response.shape[-2]
        history = torch.cat([queue.responses, response.detach().to(torch.float64)], dim=-2)
        mean = preceding_means(history, self.capacity)
        full = queue.filled[..., None] + torch.arange(windows, device=history.device) >= self.capacity
        queue_mean = torch.where(full[..., None], mean, torch.nan)
        deviation = (history[..., self.capacity :, :] - queue_mean).abs().amax(dim=-1)
        accepted = torch.ones_like(full)
        if self.by_residual:
            accepted &= deviation < self.tau  # NaN compares false: nothing is accepted during warm-up
        if self.by_confidence:
            accepted &= confidence > self.min_confidence
        filled = (queue.filled + windows).clamp(max=self.capacity)
        return Selection(accepted, queue_mean, deviation), ResponseQueue(history[..., -self.capacity :, :], filled)


def residual_threshold(tau: float | str, share: float, bundle: ModelBundle) -> float:
    """Return tau as a number; ``auto`` is the deviation that this share of the training windows do not exceed."""
    if not isinstance(tau, str):
        return tau
    usual = bundle.manifest.usual_deviation
    if usual is None:
        raise BundleError(
            "tau 'auto' needs the deviation of the response along the training recordings, which this bundle does "
            "not carry: an older version wrote it, or its recordings are too short to fill the queue; train it "
            "again, or set the method's tau to a number"
        )
    found = usual.at(share)
    if found <= 0:
        raise BundleError(
            "tau 'auto' needs a response that varies, and that of this bundle is constant: its discriminator is "
            "dead; train it again, or set the method's tau to a number"
        )
    return found
