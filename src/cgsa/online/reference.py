"""Reference: a healthy span of the machine under watch, taken off everything that follows.

Machines differ from each other, when healthy, by more than a fault changes
them. A machine that is put under watch is healthy at first, and that is all
this method wants to know. The model was trained against references from other
conditions than the window's (:mod:`cgsa.offline.references`), so the one of the
first half second serves when the condition moves. No weight is ever changed:
nothing that comes later, neither a slow fault nor a poisoned stretch, can teach
the model that it is normal.

A machine that is like those of the training can also be seen as the model sees
any of them, with its general reference. There every window is seen both ways,
and the way counts more that brings it nearer to what the model knows. So a
reference that no longer fits, since a sensor was moved, does no harm.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.reference import reference_of, share_of_own
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import AGREES

STANDS, IN_SPAN, BEFORE = "reference stands", "in the healthy span", "before the reference"
"""Why a window was taken or not, as a ledger tells it."""
ALIKE = 0.8
"""Share of the windows of a healthy span that must lie where training was; a few may be bad."""


@dataclass(frozen=True)
class ReferenceConfig(MethodConfig):
    """Settings of the method."""

    commission_seconds: float = 0.5
    """How long the machine is known to be healthy when the watch begins."""

    def __post_init__(self) -> None:
        if self.commission_seconds <= 0:
            raise ConfigError(f"commission_seconds {self.commission_seconds:g}; expected a positive number")


class Reference(AdaptingMethod):
    """Takes the reference of the first windows, and then the source model's word for how others differ from it."""

    Config: ClassVar[type[MethodConfig]] = ReferenceConfig
    summary: ClassVar[str] = "a healthy reference from the first half second; no weight is changed"
    needs: ClassVar[frozenset[str]] = frozenset({"reference", "calibration"})

    def start(self) -> None:
        """Begin with the mean over the machines of the training, and with a span to fill."""
        self._network = self.copy_network(trainable=False)
        known, self._calibration = self.bundle.require_known()
        self._known = deepcopy(known).to(self.device)
        seen = self.bundle.manifest
        self._wanted = max(1, round(self.config.commission_seconds * seen.sample_rate / seen.window.step))
        general = self.bundle.require_reference().to(self.device)
        self.memory = {
            "reference": general.clone(),
            "span": general.new_empty(0, len(general)),
            "commissioned": torch.zeros((), dtype=torch.bool, device=self.device),
            "familiar": torch.zeros((), dtype=torch.bool, device=self.device),
        }
        self._general = general

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities with the reference as it is now."""
        return self._view_both(self._network.frontend(x.to(self.device, torch.float32)))[0]

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        seen = self._network.frontend(x)
        probabilities, distance, agrees = self._view_both(seen)
        ready = self.memory["commissioned"].expand(len(x)).clone()
        accepted = torch.zeros(len(x), dtype=torch.bool, device=self.device)
        if not bool(self.memory["commissioned"]):
            accepted[: self._wanted - len(self.memory["span"])] = True
            self._commission(seen[accepted])
        return StepOutput(probabilities, accepted, {"distance": distance, "ready": ready, AGREES: agrees})

    @torch.no_grad()
    def _step_without_learning(self, x: Tensor) -> StepOutput:
        probabilities, distance, agrees = self._view_both(self._network.frontend(x))
        ready = self.memory["commissioned"].expand(len(x)).clone()
        evidence = {"distance": distance, "ready": ready, AGREES: agrees}
        return StepOutput(probabilities, torch.zeros_like(ready), evidence)

    def reasons(self, output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
        """Return why each window was taken into the reference or not."""
        code = 2 - 2 * output.evidence["ready"].long()
        if output.accepted is not None:
            code[output.accepted] = 1
        return code, (STANDS, IN_SPAN, BEFORE)

    def _view_both(self, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return class probabilities, how far from all known the windows lie, and whether the frozen model agrees."""
        probabilities, distance = self._view(seen, self.memory["reference"])
        # With its general reference the network says what the frozen model says.
        others, other_distance = self._view(seen, self._general)
        if bool(self.memory["familiar"]):
            share = share_of_own(distance, other_distance)
            probabilities = share[:, None] * probabilities + (1 - share[:, None]) * others
            distance = share * distance + (1 - share) * other_distance
        return probabilities, distance, probabilities.argmax(dim=1) == others.argmax(dim=1)

    def _view(self, seen: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        inputs = seen - reference
        features = self._network.F(inputs)
        return torch.softmax(self._network.classify(features), dim=1), self._known(inputs, features)

    def _commission(self, seen: Tensor) -> None:
        """Add to the span; where it is full and its windows are alike, take their reference."""
        span = torch.cat([self.memory["span"], seen])
        if len(span) < self._wanted:
            self.memory["span"] = span
            return
        reference = reference_of(span)
        # A span over a change of the condition, or of garbage, is like no healthy machine: wait for a better one.
        alike = self._fits(span - reference)
        if bool(alike):
            self.memory["reference"] = reference
            self.memory["familiar"] = self._fits(span - self._general)
        self.memory["commissioned"] = alike
        self.memory["span"] = span[:0] if bool(alike) else span[len(span) // 2 + 1 :]

    def _fits(self, inputs: Tensor) -> Tensor:
        """Return whether nearly all windows of a span lie where training was."""
        distance = self._known(inputs, self._network.F(inputs))
        return torch.quantile(distance, ALIKE) <= self._calibration.distance
