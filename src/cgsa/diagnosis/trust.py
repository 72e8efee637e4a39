"""How far to trust a diagnosis, estimated without labels.

Three things are known of every window. *Agreement*: whether the frozen source
model gives the same class, since an adaptation may have made the model worse.
*Coverage*: whether the window lies within the range of the training data, by
its distance from them or, if the model has no such distance, by its residual
response. *Chance*: how likely the class is right, calibrated on operating
conditions that were held out of training. The means over a batch are its trust.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from cgsa.decide.decision import UNKNOWN, Decision, DecisionMaker
from cgsa.events import Trust
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.known import DISTANCE
from cgsa.nn.mlp import DiagnosisNet
from cgsa.online.base import StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE, evidence_by_condition

COVERED, CHANCE = "covered", "chance"
"""Evidence that trust rests on, under the names of the ledger columns."""


class SourceAgreement:
    """Compares a method with the frozen source model it started from.

    ``bundle`` is the source model, and ``labels`` the name of the evidence in which the method itself reports the
    classes of that model; None if it does not.
    """

    def __init__(self, bundle: ModelBundle, *, device: torch.device | str = "cpu", labels: str | None = None) -> None:
        self._bundle, self._device, self._labels = bundle, torch.device(device), labels

    @torch.no_grad()
    def add_to(self, output: StepOutput, windows: Tensor) -> StepOutput:
        """Return the output with the evidence whether the source model agrees, unless the method gave it already."""
        if AGREES_WITH_SOURCE in output.evidence:
            return output
        if self._labels is not None and self._labels in output.evidence:
            frozen = output.evidence[self._labels]
        else:
            frozen = self._network(windows.to(self._device, torch.float32)).argmax(dim=1)
        agrees = frozen == output.probabilities.argmax(dim=1).to(frozen.device)
        return replace(output, evidence={**output.evidence, AGREES_WITH_SOURCE: agrees})

    @cached_property
    def _network(self) -> DiagnosisNet | FeatureModel:
        """The source network; methods that report its classes need no copy, and no method ever changes it."""
        network = self._bundle.model
        if all(tensor.device == self._device for tensor in network.state_dict().values()):
            return network
        return deepcopy(network).to(self._device)


def chances(probabilities: Tensor, decided: Decision) -> Tensor:
    """Return the calibrated probability that the class of each window is right."""
    predicted = probabilities.argmax(dim=1, keepdim=True).to(decided.window_probabilities.device)
    return decided.window_probabilities.gather(1, predicted).squeeze(1)


def with_trust(output: StepOutput, decided: Decision, decision: DecisionMaker, manifest: Manifest) -> StepOutput:
    """Return the output with chance and, if the model knows the range of its training data, coverage as evidence."""
    added = {CHANCE: chances(output.probabilities, decided)}
    usual, responses = manifest.usual_responses, list(evidence_by_condition("response", output.evidence).values())
    if UNKNOWN in decision.states:
        added[COVERED] = decided.window_probabilities[:, -1] < 0.5
        limit, distance = manifest.calibration, output.evidence.get(DISTANCE)
        # A window may keep its diagnosis beyond the range of the training.
        if limit is not None and limit.unknown_distance is not None and distance is not None:
            added[COVERED] &= distance.to(added[COVERED].device) <= limit.distance
    elif usual is not None and responses:
        inside = [(low <= column) & (column <= high) for (low, high), column in zip(usual, responses, strict=True)]
        added[COVERED] = torch.stack(inside).all(dim=0)
    return replace(output, evidence={**output.evidence, **added})


def trust_of(output: StepOutput, *, windows: int, paused: str | None = None) -> Trust:
    """Return the trust of a batch from the evidence of its windows.

    ``windows`` counts those that the quality gate rejected, too; ``paused`` is
    why no window was used for adaptation.
    """
    means = {
        name: float(output.evidence[name].double().mean()) if name in output.evidence else None
        for name in (AGREES_WITH_SOURCE, COVERED, CHANCE)
    }
    note = (
        _adaptation_note(output) if paused is None else f"{paused}: {windows} windows diagnosed, none used for learning"
    )
    return Trust(agreement=means[AGREES_WITH_SOURCE], coverage=means[COVERED], accuracy=means[CHANCE], note=note)


def _adaptation_note(output: StepOutput) -> str:
    """Return in words whether the method adapts."""
    windows = len(output.probabilities)
    covered = output.evidence.get(COVERED)
    outside = "" if covered is None or bool(covered.all()) else f"; {int((~covered).sum())} of them outside training"
    if output.accepted is None:
        return f"never learns: {windows} windows diagnosed{outside}"
    taken = int(output.accepted.sum())
    if taken:
        return f"learning: {taken} of {windows} windows trusted{outside}"
    ready = output.evidence.get("ready")
    if ready is not None and bool(ready.all()):
        return f"reference in use: {windows} windows diagnosed{outside}"
    return f"learning paused: 0 of {windows} windows trusted{outside}"
