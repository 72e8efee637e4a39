"""The reliability gate of CGSA: which windows may be learnt from (paper, section II-C)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True, eq=False)
class Selection:
    """What the gate found for each window of a batch."""

    accepted: Tensor
    """The reliable set R, eq. (11)."""
    queue_mean: Tensor
    """Mean of the W responses before the window, eq. (9), for each condition; NaN while the queue warms up."""
    deviation: Tensor
    """Distance of the window's response from it, eq. (10), the largest of all conditions; NaN while it warms up."""


class ReliabilityGate:
    """The two criteria of eq. (11) over a queue of recent residual responses.

    Where there are several conditions, a window is consistent if its response
    to each of them is: what is held against tau is the largest deviation.

    The gate itself holds settings alone; the queue is handed in and out, so
    that it can stand with the rest of a method's state.

    Parameters
    ----------
    queue
        W, how many responses the queue holds.
    tau
        tau_mu; a window whose response deviates less is consistent.
    min_confidence
        epsilon_p; a pseudo-label must be more confident than this.
    by_residual, by_confidence
        Which criteria are in force. Without the residual one there is no
        warm-up either, since nothing waits for the queue.
    """

    def __init__(
        self,
        queue: int = 50,
        tau: float = 0.05,
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

    def select(self, queue: Tensor, response: Tensor, confidence: Tensor) -> tuple[Selection, Tensor]:
        """Judge windows in their order; return what was found and the queue after them.

        Queue and responses have one column a condition. Every response is pushed into the queue, whether its window is
        accepted or not.
        """
        filled = len(queue)
        held = pad(queue, (0, 0, self.capacity - filled, 0))[None]
        found, held = self.select_many(
            held, torch.tensor([filled], device=queue.device), response[None], confidence[None]
        )
        after = held[0, max(0, self.capacity - filled - len(response)) :].clone()
        return Selection(found.accepted[0], found.queue_mean[0], found.deviation[0]), after

    def select_many(
        self, queue: Tensor, filled: Tensor, response: Tensor, confidence: Tensor
    ) -> tuple[Selection, Tensor]:
        """Judge windows of several machines, each by its own queue; return what was found and the queues after them.

        Queues are (machines, W, conditions), each filled from the end: the last ``filled`` responses count. Responses
        are (machines, windows, conditions), confidences (machines, windows).

        A queue slides by one response a window. All its means come from one
        running sum over the queue and the batch. It is taken in double
        precision and anew each batch, so no error builds up along the stream.
        """
        windows = response.shape[1]
        history = torch.cat([queue, response.detach().to(torch.float64)], dim=1)
        running = pad(history.cumsum(dim=1), (0, 0, 1, 0))
        mean = (running[:, self.capacity : self.capacity + windows] - running[:, :windows]) / self.capacity
        full = filled[:, None] + torch.arange(windows, device=history.device) >= self.capacity
        queue_mean = torch.where(full[:, :, None], mean, torch.nan)
        deviation = (history[:, self.capacity :] - queue_mean).abs().amax(dim=2)
        accepted = torch.ones_like(full)
        if self.by_residual:
            accepted &= deviation < self.tau  # NaN compares false: nothing is accepted during warm-up
        if self.by_confidence:
            accepted &= confidence > self.min_confidence
        return Selection(accepted, queue_mean, deviation), history[:, -self.capacity :]
