"""Algorithm 1 as a straightforward loop in PyTorch: the baseline of all speed ratios.

Windows are laid out one by one, both networks process the whole batch, a Python queue takes one response after the
other, and the optimiser is PyTorch's default.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.nn.bundle import ModelBundle
from cgsa.online.cgsa import CgsaConfig


class LiteralLoop:
    """The online stage without any optimisation; the source model has a discriminator of one condition."""

    def __init__(self, bundle: ModelBundle, config: CgsaConfig, device: torch.device | str = "cpu") -> None:
        self.W, self.tau, self.epsilon = config.queue, config.tau_for(bundle), config.min_confidence
        self.source = deepcopy(bundle.network).to(device).eval()
        self.D = deepcopy(bundle.require_discriminator()).to(device).eval()
        self.student = deepcopy(bundle.network).to(device).train().requires_grad_(requires_grad=True)
        self.adam = torch.optim.Adam(self.student.parameters(), lr=config.lr)
        self.queue: deque[float] = deque(maxlen=self.W)

    def step(self, x: Tensor) -> tuple[Tensor, list[int]]:
        """Return class probabilities of raw windows before the update, and the indices of the accepted ones."""
        scores = self.student(x)
        probabilities = torch.softmax(scores.detach(), dim=1)
        with torch.no_grad():
            features = self.source.features(x)
            source_probabilities = torch.softmax(self.source.classify(features), dim=1)
            responses = self.D.response(features)
        reliable = []
        for place in range(len(x)):
            confidence, response = float(source_probabilities[place].max()), float(responses[place, 0])
            if len(self.queue) == self.W:
                deviation = abs(response - sum(self.queue) / self.W)
                if deviation < self.tau and confidence > self.epsilon:
                    reliable.append(place)
            self.queue.append(response)
        if reliable:
            loss = cross_entropy(scores[reliable], source_probabilities[reliable].argmax(dim=1))
            self.adam.zero_grad()
            torch.autograd.backward(loss)
            self.adam.step()
        return probabilities, reliable
