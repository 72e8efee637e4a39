"""Reference: features of a healthy span of the monitored machine, subtracted from all that follow.

Healthy machines differ from each other by more than a fault changes one of
them. A machine is healthy when monitoring starts, and that is all this method
assumes. The model was trained with references from other conditions than the
window's (:mod:`cgsa.offline.references`), so the reference of the first half
second stays valid when the condition changes. No weight is ever changed:
nothing that comes later, neither a slow fault nor a manipulated interval, can
teach the model that it is normal.

A machine that is similar to those of the training can also be diagnosed with
the model's general reference. Then every window is evaluated with both, and the
one that brings it closer to the training data gets more weight. So a reference
that no longer fits, because a sensor was moved, does no harm.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.reference import median_reference, own_reference_weight
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE

REFERENCE_READY, IN_HEALTHY_SPAN, BEFORE_REFERENCE = "reference stands", "in the healthy span", "before the reference"
"""Why a window was used for the reference or not; stored in ledgers."""
MIN_FITTING_SHARE = 0.8
"""Share of the windows of a healthy span that must be close to the training data; a few may be bad."""


@dataclass(frozen=True)
class ReferenceConfig(MethodConfig):
    """Settings of the method."""

    commission_seconds: float = 0.5
    """How long the machine is known to be healthy when monitoring starts."""

    def __post_init__(self) -> None:
        self.check("commission_seconds", valid=self.commission_seconds > 0, expected="a positive number")


class Reference(AdaptingMethod):
    """Acquires a reference from the first windows, then diagnoses with the source model how others differ from it."""

    Config = ReferenceConfig
    summary = "a healthy reference from the first half second; no weight is changed"
    needs = frozenset({"reference", "calibration"})

    def start(self) -> None:
        """Start with the mean over the machines of the training, and an empty span."""
        self._network = self.copy_network(trainable=False)
        distance, self._calibration = self.bundle.require_known()
        self._training_distance = deepcopy(distance).to(self.device)
        manifest = self.bundle.manifest
        self._wanted = max(1, round(self.config.commission_seconds * manifest.sample_rate / manifest.window.step))
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
        """Return class probabilities with the current reference."""
        return self._diagnose(self._network.frontend(x.to(self.device, torch.float32)))[0]

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        features = self._network.frontend(x)
        output, accepted = self._output(features)
        if not bool(self.memory["commissioned"]):
            accepted[: self._wanted - len(self.memory["span"])] = True
            self._commission(features[accepted])
        return output

    @torch.no_grad()
    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._output(self._network.frontend(x))[0]

    def _output(self, features: Tensor) -> tuple[StepOutput, Tensor]:
        """Return the diagnosis of windows from their front-end features, and its mask of accepted windows: none yet."""
        probabilities, distance, agrees = self._diagnose(features)
        ready = self.memory["commissioned"].expand(len(features)).clone()
        accepted = torch.zeros_like(ready)
        evidence = {"distance": distance, "ready": ready, AGREES_WITH_SOURCE: agrees}
        return StepOutput(probabilities, accepted, evidence), accepted

    def reasons(self, output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
        """Return why each window was used for the reference or not: codes, and their texts."""
        return reference_reasons(output)

    def _diagnose(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return class probabilities, distances from the training data, and whether the frozen model agrees."""
        probabilities, spaces = self._classify(self.memory["reference"], features)
        distance = self._training_distance(*spaces)
        # With its general reference the network is the frozen source model.
        general_probabilities, general_spaces = self._classify(self._general, features)
        if bool(self.memory["familiar"]):
            general_distance = self._training_distance(*general_spaces)
            weight = own_reference_weight(distance, general_distance)
            probabilities = weight[:, None] * probabilities + (1 - weight[:, None]) * general_probabilities
            distance = weight * distance + (1 - weight) * general_distance
        return probabilities, distance, probabilities.argmax(dim=1) == general_probabilities.argmax(dim=1)

    def _classify(self, reference: Tensor, frontend_features: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return class probabilities, and the input and output of the feature extractor."""
        inputs = frontend_features - reference
        features = self._network.F(inputs)
        return torch.softmax(self._network.classify(features), dim=1), (inputs, features)

    def _commission(self, features: Tensor) -> None:
        """Add windows to the span; if it is full and its windows are similar, acquire their reference."""
        span = torch.cat([self.memory["span"], features])
        if len(span) < self._wanted:
            self.memory["span"] = span
            return
        reference = median_reference(span)
        # A span with a change of condition, or with invalid data, resembles no healthy machine: wait for a better one.
        fits = self._fits(span - reference)
        if bool(fits):
            self.memory["reference"] = reference
            self.memory["familiar"] = self._fits(span - self._general)
        self.memory["commissioned"] = fits
        self.memory["span"] = span[:0] if bool(fits) else span[len(span) // 2 + 1 :]

    def _fits(self, inputs: Tensor) -> Tensor:
        """Return whether nearly all windows of a span are close to the training data."""
        distance = self._training_distance(inputs, self._network.F(inputs))
        return torch.quantile(distance, MIN_FITTING_SHARE) <= self._calibration.distance


def reference_reasons(output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
    """Return why each window was used for a healthy reference or not: codes, and their texts."""
    code = 2 - 2 * output.evidence["ready"].long()
    if output.accepted is not None:
        code[output.accepted] = 1
    return code, (REFERENCE_READY, IN_HEALTHY_SPAN, BEFORE_REFERENCE)
