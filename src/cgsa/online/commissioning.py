"""Commissioning: a healthy reference of the machine, used where the model would otherwise be wrong about it.

When monitoring starts, the machine should be healthy for a while. The start is
observed as soon as it is suitable: the machine runs, its signal resembles the
training, and it is steady. If the frozen model agrees that the start is healthy, it
needs no help, and nothing is changed: on such machines a reference costs as often as
it helps. If it does not, either the machine is faulty or the model is wrong about it,
and no signal can tell which. So a person is asked, and the frozen model reports until
there is an answer. If the machine is known to be healthy, the scores are shifted by
its reference, just far enough for the start to count as healthy. No weight is ever
changed, so nothing that comes later can teach the model that it is normal.

Where operating conditions are known, the ensemble uses its members in orders, and a
reference belongs to the condition at which it was taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.errors import DataError
from cgsa.events import CommissioningState
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.frame_sums import RecentFrames
from cgsa.nn.known import DISTANCE
from cgsa.nn.own_start import CHANGE
from cgsa.nn.reference import own_reference_weight
from cgsa.nn.reference_shift import appears_healthy, mean_votes, needed_shift
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.commissioned import CommissionedMethod
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.healthy_start import QUARTERS, ObservedRows, level_moves, window_levels
from cgsa.online.machine_references import MachineReferences
from cgsa.online.score_history import BLOCKS

CONFIDENT = 0.9
"""Probability of a fault from which a quarter of the start is not healthy."""
RETURNED_SHARE = 0.5
"""A window at less than this share of the distance that the start had from the training data is known to the model."""


@dataclass(frozen=True)
class CommissioningConfig(MethodConfig):
    """Settings of the method."""

    seconds: float = 1.0
    """How long the healthy start is observed, from the end of the first window on: seconds to hours."""
    healthy_start: bool = False
    """Whether the machine is known to be healthy when monitoring starts; if not, a person is asked where the model
    disagrees."""
    history_seconds: float = 28_800.0
    """How far back a reference may be taken from; 0 keeps no history."""

    def __post_init__(self) -> None:
        self.check("seconds", valid=self.seconds > 0, expected="a positive number")
        self.check("history_seconds", valid=self.history_seconds >= 0, expected="0 or more")


class Commissioning(CommissionedMethod):
    """Diagnoses with an ensemble; if the healthy start does not look healthy to it, relative to a reference."""

    Config = CommissioningConfig
    summary = "a healthy reference of the machine where the ensemble needs one; no weight is changed"
    needs = frozenset({"ensemble"})
    uses_conditions = True

    def start(self) -> None:
        """Start without a reference, and with an empty span."""
        self._ensemble: Ensemble = deepcopy(self.bundle.require_ensemble()).to(self.device)
        self._trees, self._recent = self._ensemble.stacked_trees(), RecentFrames()
        self._known = self.bundle.checks_on(self.device)
        ranges = [condition.maximum - condition.minimum for condition in self.bundle.manifest.conditions]
        self._ranges = torch.tensor(ranges, dtype=torch.float64, device=self.device)
        self._own_start = self.bundle.own_start_on(self.device)
        features = 0 if self._own_start is None else self._own_start.feature_count
        self.observe_start((self._ensemble.member_count, self._ensemble.classes), features)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities with the current reference."""
        windows = x.to(self.device, torch.float32)
        features = self._ensemble.extract(windows)
        scores = self._ensemble.member_scores(features, trees=self._trees)
        probabilities = self._views(scores, self._compare(features, windows)[0], None)[0]
        return self._against_start(probabilities, self._start_rows(features))[0]

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned, or that of an older version."""
        super().load_state_dict(_completed(state, len(self._ranges)))

    @property
    def _references(self) -> MachineReferences:
        return MachineReferences.from_tensors(select_prefix("references", self.memory))

    @property
    def _has_reference(self) -> bool:
        references = self._references
        return bool(references.shifts.any()) or len(references.known_starts) > 0

    def _describe(self, state: CommissioningState) -> str:
        match state:
            case "question":
                return f"question: {self._question()}; confirm healthy, or mark as faulty"
            case "faulty":
                return "marked as faulty: no reference, verdicts of the model as trained"
            case "withdrawn":
                return "reference taken back: verdicts of the model as trained"
            case _:
                references = self._references
                used, count = "no reference needed", len(references)
                if references.known_starts.numel():
                    used = "compared with the healthy start of this machine"
                if bool(references.shifts.any()):
                    used = "reference of this machine in use"
                return f"commissioned: {used}{f', taken at {count} conditions' if count > 1 else ''}"

    def _discard_references(self) -> None:
        compared = 0 if self._own_start is None else self._own_start.feature_count
        shape = (self._ensemble.member_count, self._ensemble.classes, len(self._ranges), compared)
        self.memory |= add_prefix("references", MachineReferences.empty(*shape, self.device).tensors())

    def _keep_reference(self, rows: ObservedRows, *, confirmed: bool) -> None:
        """Keep the healthy start of the machine, and shift the scores by it if the model needs that."""
        shift, distance, before = (
            self._shift(rows, confirmed=confirmed),
            rows.distances.median().exp(),
            self._references,
        )
        unknown = before.starts.new_full(before.starts.shape[1:], torch.nan)
        start = unknown if rows.features is None else rows.features.mean(dim=0)
        added = before.with_added(shift, distance, _conditions(rows).mean(dim=0), start, self._ranges)
        self.memory |= add_prefix("references", added.tensors())

    def _appears_healthy(self, span: ObservedRows) -> bool:
        return appears_healthy(span.scores, self._pool(span)) and self._limits.resembles_training(span)

    def _output(self, x: Tensor) -> tuple[StepOutput, ObservedRows]:
        features = self._ensemble.extract(x, self._recent)
        factors = self._ensemble.speed_factors(self.known_conditions)
        scores = self._ensemble.member_scores(features, factors, self._trees)
        distance, comparison = self._compare(features, x)
        probabilities, frozen = self._views(scores, distance, self.known_conditions)
        unknown = scores.new_full((len(x), len(self._ranges)), torch.nan, dtype=torch.float64)
        conditions = unknown if self.known_conditions is None else self.known_conditions
        compared = self._start_rows(features)
        probabilities, change = self._against_start(probabilities, compared)
        rows = ObservedRows(scores, window_levels(x), distance.clamp(min=1e-12).log(), conditions, compared)
        evidence = {
            **self._start_evidence(rows),
            AGREES_WITH_SOURCE: probabilities.argmax(dim=1) == frozen.argmax(dim=1),
            **comparison,
            **change,
        }
        return StepOutput(probabilities, torch.zeros_like(evidence["ready"]), evidence), rows

    def _remember(self, rows: ObservedRows) -> None:
        if self.interval is not None and self.config.history_seconds:
            kept = rows.without_features()
            history = self._history.add(kept, *self.interval, self.config.history_seconds / BLOCKS)
            self.memory |= add_prefix("history", history.tensors())

    def _compare(self, features: Sequence[Tensor], x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the distance of each window from the training, 1 if the model knows none, and it as evidence."""
        if self._known is None:
            return features[0].new_ones(len(features[0])), {}
        evidence = self._known.evidence(features, x)
        return evidence[DISTANCE], evidence

    def _start_rows(self, features: Sequence[Tensor]) -> Tensor:
        """Return what of windows is compared with the healthy start."""
        return features[0].new_zeros(len(features[0]), 0) if self._own_start is None else self._own_start.rows(features)

    def _against_start(self, probabilities: Tensor, rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return class probabilities in which unchanged windows count as healthy, and as evidence how far all are."""
        if self._own_start is None:
            return probabilities, {}
        starts = self._references.known_starts
        if not len(starts):
            return probabilities, {CHANGE: rows.new_zeros(len(rows))}
        distance = self._own_start.log_distance(rows, starts)
        return self._own_start.probabilities(probabilities, distance), {CHANGE: self._own_start.change(distance)}

    def _views(self, scores: Tensor, distance: Tensor, conditions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return class probabilities with the better-fitting reference, and those of the frozen model.

        The reference corrects what is wrong where the machine started. A window much closer to the training data than
        the start was is something that the model knows: there, its own view counts.
        """
        references, factors = self._references, self._ensemble.speed_factors(conditions)
        if not bool(references.shifts.any()):
            frozen = torch.softmax(self._ensemble.combine(scores, factors), dim=1)
            return frozen, frozen
        chosen = references.nearest(conditions, len(scores), self._ranges)
        if factors is not None:
            # A reference that was taken without the speed says nothing about the members in orders.
            taken = self._ensemble.speed_factors(references.conditions)
            factors = None if taken is None else torch.where(taken.isfinite()[chosen], factors, torch.nan)
        frozen = torch.softmax(self._ensemble.combine(scores, factors), dim=1)
        own = torch.softmax(self._ensemble.combine(scores - references.shifts[chosen], factors), dim=1)
        returned = RETURNED_SHARE * references.distances[chosen]
        weight = own_reference_weight(returned, distance)[:, None]
        # Training windows have distances of about 1. A start that was hardly farther away does not differ from them.
        return torch.where(returned[:, None] < 1, own, weight * own + (1 - weight) * frozen), frozen

    def _pool(self, rows: ObservedRows) -> Tensor:
        """Return the weights of the members for rows: those with a speed if it is known for all of them."""
        factors = self._ensemble.speed_factors(_conditions(rows))
        known = factors is not None and bool(factors.isfinite().all())
        return self._ensemble.speed_pool if known else self._ensemble.pool

    def _shift(self, rows: ObservedRows, *, confirmed: bool) -> Tensor:
        """Return what must be taken off the scores of a span for it to count as healthy; 0 if nothing must be."""
        return needed_shift(rows.scores, self._ensemble.healthy_scores(), self._pool(rows), confirmed=confirmed)

    def _moves(self, rows: ObservedRows) -> bool:
        """Return whether a span is not steady: its level moves, or one reference does not suit all of its quarters."""
        shifted, pool = rows.scores - self._shift(rows, confirmed=True), self._pool(rows)
        quarters = [part for part in shifted.tensor_split(QUARTERS) if len(part)]
        healthy = torch.stack([torch.softmax(mean_votes(part, pool), dim=0)[0] for part in quarters])
        return level_moves(rows) or bool((healthy < 1 - CONFIDENT).any())

    def _question(self) -> str:
        """Return what makes the observed start doubtful."""
        span, classes = self._span, self.bundle.manifest.classes
        likely = classes[int(mean_votes(span.scores, self._pool(span)).argmax())].replace("_", " ")
        if self._limits.known is None:
            return f"looks like {likely}, but the model does not know the range of its training"
        if self._limits.resembles_training(span):
            return f"looks like {likely}"
        return f"unlike every machine of the training, most like {likely}"


def _conditions(rows: ObservedRows) -> Tensor:
    """Return the conditions of rows of this method, which always have them."""
    if rows.conditions is None:
        raise DataError("rows without conditions; expected NaN where they are unknown")
    return rows.conditions


def _completed(state: Mapping[str, Tensor], conditions: int) -> dict[str, Tensor]:
    """Return a state with what older versions did not write: unknown conditions, and no features of starts."""

    def unknown(rows: int) -> Tensor:
        return torch.full((rows, conditions), torch.nan, dtype=torch.float64)

    found = dict(state)
    for part in ("span", "history.blocks", "history.newest"):
        if f"memory.{part}.distances" in state:
            found.setdefault(f"memory.{part}.conditions", unknown(len(state[f"memory.{part}.distances"])))
    if "memory.shift" in found:
        shift, distance = found.pop("memory.shift"), found.pop("memory.start_distance")
        found |= {"memory.references.shifts": shift[None], "memory.references.distances": distance[None]}
        found["memory.references.conditions"] = unknown(1)
    for part, name in (("span", "features"), ("references", "starts")):
        if f"memory.{part}.distances" in found:
            rows = found[f"memory.{part}.distances"]
            found.setdefault(f"memory.{part}.{name}", rows.new_zeros(len(rows), 0))
    return found
