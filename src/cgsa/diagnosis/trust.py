"""How far to trust what a method says, without a label.

Three things are seen of every window. Whether the frozen source model says the
same: what adapting changed, it may have changed for the worse. Whether the
window lies where training was, by its distance to all that is known or, where
the model does not know that, by its residual response: beyond it, nobody's word
is worth much. And how likely what is said of it is right, by the calibration of
the model at conditions that it had not seen. Their means over a batch are its
trust.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from cgsa.decide.decision import UNKNOWN, Decision, DecisionMaker
from cgsa.events import Trust
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.online.base import StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE, evidence_by_condition

COVERED, CHANCE = "covered", "chance"
"""Names of what else is seen of a window, as columns of a ledger."""


class FrozenModel:
    """The source model as it was, beside a method that may change its own.

    Parameters
    ----------
    bundle
        The model that the method started from.
    device
        Where to work.
    labels
        Evidence in which the method tells the source model's labels itself; none where it does not.
    """

    def __init__(self, bundle: ModelBundle, *, device: torch.device | str = "cpu", labels: str | None = None) -> None:
        self._labels = labels
        self._network = deepcopy(bundle.network).to(device).eval()
        self._device = torch.device(device)

    @torch.no_grad()
    def beside(self, x: Tensor, output: StepOutput) -> StepOutput:
        """Return what a method said of windows, and whether the source model says the same, if it did not tell."""
        if AGREES_WITH_SOURCE in output.evidence:
            return output
        if self._labels is not None and self._labels in output.evidence:
            frozen = output.evidence[self._labels]
        else:
            frozen = self._network(x.to(self._device, torch.float32)).argmax(dim=1)
        return replace(
            output, evidence={**output.evidence, AGREES_WITH_SOURCE: frozen == output.probabilities.argmax(dim=1)}
        )


def chances(probabilities: Tensor, decided: Decision) -> Tensor:
    """Return how likely what a method says of each window is right: calibrated, and nothing of it where unknown."""
    said = probabilities.argmax(dim=1, keepdim=True).to(decided.window_probabilities.device)
    return decided.window_probabilities.gather(1, said).squeeze(1)


def with_trust(output: StepOutput, decided: Decision, decision: DecisionMaker, manifest: Manifest) -> StepOutput:
    """Return what a method said, and for each window the chance that it is right and whether it is covered."""
    seen = {CHANCE: chances(output.probabilities, decided)}
    usual, responses = manifest.usual_responses, list(evidence_by_condition("response", output.evidence).values())
    if UNKNOWN in decision.states:
        seen[COVERED] = decided.window_probabilities[:, -1] < 0.5
    elif usual is not None and responses:
        inside = [(low <= column) & (column <= high) for (low, high), column in zip(usual, responses, strict=True)]
        seen[COVERED] = torch.stack(inside).all(dim=0)
    return replace(output, evidence={**output.evidence, **seen})


def trust_of(output: StepOutput) -> Trust:
    """Return the trust of a batch, from what was seen of its windows."""
    means = {
        name: float(output.evidence[name].double().mean()) if name in output.evidence else None
        for name in (AGREES_WITH_SOURCE, COVERED, CHANCE)
    }
    return Trust(
        agreement=means[AGREES_WITH_SOURCE], coverage=means[COVERED], accuracy=means[CHANCE], note=_in_words(output)
    )


def _in_words(output: StepOutput) -> str:
    """Say whether the method learns, and if it does not, what of the windows speaks against it."""
    windows = len(output.probabilities)
    covered = output.evidence.get(COVERED)
    outside = "" if covered is None or bool(covered.all()) else f"; {int((~covered).sum())} of them outside training"
    if output.accepted is None:
        return f"never learns: {windows} windows seen{outside}"
    taken = int(output.accepted.sum())
    if taken:
        return f"learning: {taken} of {windows} windows trusted{outside}"
    ready = output.evidence.get("ready")
    if ready is not None and bool(ready.all()):
        return f"reference stands: {windows} windows seen{outside}"
    return f"learning paused: 0 of {windows} windows trusted{outside}"
