"""Windows joined over time: the observations of a Markov chain that rarely changes state.

Overlapping windows add only their new share of evidence. The window itself counts in full, so what multiplies it are
the beliefs of one window length before and after: of windows that share no sample with it. The windows before it come
from earlier batches, too; those after it from its own batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.bundle import Manifest
from cgsa.nn.markov import backward_messages, forward_posteriors, normalised, transition_matrix

START_HEALTHY = 0.99
"""Probability of the healthy state before the first window, as in decisions."""
LEAST_PROBABILITY = 1e-4
"""Least probability that a single window gives any class, as in decisions: it may be wrong."""


@dataclass(frozen=True, eq=False)
class Joining:
    """How the windows of a stream are joined."""

    hop: float
    """Step from one window to the next, as a fraction of the window length."""
    per_step: Tensor
    """Probabilities of a change of state within one step, (states, states)."""
    per_window: Tensor
    """The same within one window length."""

    @classmethod
    def of(cls, manifest: Manifest, change: float, device: torch.device) -> Joining:
        """Return the joining for a model, with the probability that the state changes within one window length."""
        hop, states = min(1.0, manifest.window.step / manifest.window.length), len(manifest.classes)
        per_step, per_window = (transition_matrix(one, 1.0, states).to(device) for one in (change * hop, change))
        return cls(hop, per_step, per_window)

    def start(self) -> Tensor:
        """Return the beliefs before the first window: over the last window length, oldest first."""
        states = len(self.per_step)
        belief = self.per_step.new_full((states,), (1 - START_HEALTHY) / (states - 1))
        belief[0] = START_HEALTHY
        return belief.repeat(round(1 / self.hop), 1)

    def join(self, log_probabilities: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Return the joined probabilities of the windows of a batch, and the beliefs after it."""
        evidence = log_probabilities.double().exp().clamp(min=LEAST_PROBABILITY)
        updates = self.per_step * evidence.pow(self.hop)[:, None, :]
        beliefs = torch.cat([before, forward_posteriors(before[-1:], updates[:, None])[:, 0]])
        later = backward_messages(updates)
        beyond = (torch.arange(len(evidence), device=evidence.device) + len(before)).clamp(max=len(evidence))
        around = (beliefs[: len(evidence)] @ self.per_window) * (later[beyond] @ self.per_window)
        return normalised(around * evidence), beliefs[-len(before) :].clone()
