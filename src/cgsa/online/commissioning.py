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
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.errors import DataError
from cgsa.events import CommissioningState, CommissioningStatus
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import DISTANCE
from cgsa.nn.reference import own_reference_weight
from cgsa.nn.reference_shift import appears_healthy, mean_votes, needed_shift
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.healthy_start import (
    CAUSES,
    EXPLANATIONS,
    NOT_STEADY,
    QUARTERS,
    SENSOR,
    ObservedRows,
    StartLimits,
    add_thinned,
    common_flaw,
    level_moves,
    window_levels,
)
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY
from cgsa.online.score_history import BLOCKS, ScoreHistory

MIN_WINDOWS = 4
"""Least windows of the healthy start."""
CONFIDENT = 0.9
"""Probability of a fault from which a quarter of the start is not healthy."""
RETURNED_SHARE = 0.5
"""A window at less than this share of the distance that the start had from the training data is known to the model."""
STATES: tuple[CommissioningState, ...] = ("waiting", "question", "done", "faulty", "withdrawn")
"""Meaning of the codes of states."""
WAITING, QUESTION, DONE, FAULTY, WITHDRAWN = range(len(STATES))
UNSUITABLE, QUESTION_OPEN, NO_REFERENCE = "unsuitable for the healthy span", "question open", "without a reference"
"""Why a window was not used for the reference; stored in ledgers beside those of method ``reference``."""


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


class Commissioning(AdaptingMethod):
    """Diagnoses with an ensemble; if the healthy start does not look healthy to it, relative to a reference."""

    Config = CommissioningConfig
    summary = "a healthy reference of the machine where the ensemble needs one; no weight is changed"
    needs = frozenset({"ensemble"})

    def start(self) -> None:
        """Start without a reference, and with an empty span."""
        self._ensemble: Ensemble = deepcopy(self.bundle.require_ensemble()).to(self.device)
        self._known = self.bundle.checks_on(self.device)
        manifest = self.bundle.manifest
        self._limits = StartLimits.of(manifest, self.device)
        self._wanted = max(MIN_WINDOWS, round(self.config.seconds * manifest.sample_rate / manifest.window.step))
        shape = (len(self._ensemble.config.members), self._ensemble.classes)
        self._nothing = ObservedRows.empty(*shape, len(manifest.channels), self.device)
        self.memory = {
            "shift": torch.zeros(shape, device=self.device),
            "start_distance": torch.zeros((), device=self.device),
            **add_prefix("history", ScoreHistory.empty(self._nothing).tensors()),
        }
        self.repeat(healthy=self.config.healthy_start)

    @property
    def commissioning(self) -> CommissioningStatus:
        """How far the commissioning is."""
        state, cause = STATES[int(self.memory["phase"])], CAUSES[int(self.memory["cause"])]
        reference, observed = bool(self.memory["shift"].any()), int(self.memory["count"]) / self._wanted
        match state:
            case "waiting" if cause is not None:
                text = f"waiting: {EXPLANATIONS[cause]}"
            case "waiting":
                text = f"waiting: observing the healthy start, {observed:.0%} of {self.config.seconds:g} s"
            case "question":
                text = f"question: {self._question()}; confirm healthy, or mark as faulty"
            case "done":
                text = f"commissioned: {'reference of this machine in use' if reference else 'no reference needed'}"
            case "faulty":
                text = "marked as faulty: no reference, verdicts of the model as trained"
            case "withdrawn":
                text = "reference taken back: verdicts of the model as trained"
        return CommissioningStatus(state, cause, text, min(1.0, observed), reference)

    def repeat(self, *, healthy: bool) -> None:
        """Discard the reference and observe a new start; ``healthy`` is whether the machine is known to be healthy."""
        self._set(phase=WAITING, cause=0)
        self.memory["shift"] = torch.zeros_like(self.memory["shift"])
        self.memory["healthy"] = torch.tensor(healthy, device=self.device)
        self._clear_span()

    def confirm_healthy(self) -> None:
        """Answer that the observed start is healthy; while none has been observed, that the next suitable one is."""
        phase = int(self.memory["phase"])
        if phase == QUESTION:
            self._take_reference(self._span, confirmed=True)
        elif phase == WAITING:
            self.memory["healthy"] = torch.ones_like(self.memory["healthy"])
        else:
            raise DataError(f"no question is open ({self.commissioning.text}); repeat the commissioning instead")

    def mark_faulty(self) -> None:
        """Answer that the machine is faulty: it gets no reference, and the verdicts of the frozen model stand."""
        if int(self.memory["phase"]) not in {WAITING, QUESTION}:
            raise DataError(f"no question is open ({self.commissioning.text}); take the reference back instead")
        self._clear_span()
        self._set(phase=FAULTY, cause=0)

    def withdraw(self) -> None:
        """Take the reference back: the verdicts of the frozen model stand."""
        if not bool(self.memory["shift"].any()):
            raise DataError(f"no reference of this machine is in use ({self.commissioning.text})")
        self.memory["shift"] = torch.zeros_like(self.memory["shift"])
        self._set(phase=WITHDRAWN, cause=0)

    def take_from_history(self, begin: float, end: float) -> None:
        """Take the reference from an interval of the history in which the machine was healthy, if it is suitable."""
        rows = self._history.between(begin, end)
        cause = CAUSES[common_flaw(self._limits.flaws(rows)) or (NOT_STEADY if self._moves(rows) else 0)]
        if cause is not None:
            raise DataError(f"no reference can be taken from {begin:.1f} to {end:.1f} s: {EXPLANATIONS[cause]}")
        self._take_reference(rows, confirmed=True)

    def interrupt(self) -> None:
        """Start the span anew, since the quality gate rejected too many windows."""
        if int(self.memory["phase"]) == WAITING:
            self._set(phase=WAITING, cause=SENSOR)
            self._clear_span()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities with the current reference."""
        features = self._ensemble.extract(x.to(self.device, torch.float32))
        return self._views(self._ensemble.member_scores(features), self._compare(features)[0])[0]

    @torch.no_grad()
    def _step(self, x: Tensor) -> StepOutput:
        output, rows = self._output(x)
        if int(self.memory["phase"]) == WAITING and output.accepted is not None:
            flaws = output.evidence["flaw"].long()
            if cause := common_flaw(flaws):
                self._set(phase=WAITING, cause=cause)
                self._clear_span()
            else:
                suitable = flaws == 0
                output.accepted[:] = suitable & (suitable.cumsum(dim=0) <= self._wanted - int(self.memory["count"]))
                self._observe(rows[output.accepted])
        if self.interval is not None and self.config.history_seconds:
            history = self._history.add(rows, *self.interval, self.config.history_seconds / BLOCKS)
            self.memory |= add_prefix("history", history.tensors())
        return output

    @torch.no_grad()
    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._output(x)[0]

    def reasons(self, output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
        """Return why each window was used for the reference or not: codes, and their texts."""
        texts = (BEFORE_REFERENCE, QUESTION_OPEN, REFERENCE_READY, NO_REFERENCE, NO_REFERENCE)
        code = output.evidence["commissioning"].long()
        code[(code == WAITING) & (output.evidence["flaw"] > 0)] = len(texts)
        if output.accepted is not None:
            code[output.accepted] = len(texts) + 1
        return code, (*texts, UNSUITABLE, IN_HEALTHY_SPAN)

    @property
    def _span(self) -> ObservedRows:
        return ObservedRows(**select_prefix("span", self.memory))

    @property
    def _history(self) -> ScoreHistory:
        return ScoreHistory.from_tensors(select_prefix("history", self.memory))

    def _output(self, x: Tensor) -> tuple[StepOutput, ObservedRows]:
        """Return the diagnosis of windows, with no window accepted yet, and what may be kept of them."""
        features = self._ensemble.extract(x)
        scores = self._ensemble.member_scores(features)
        distance, comparison = self._compare(features)
        probabilities, frozen = self._views(scores, distance)
        rows = ObservedRows(scores, window_levels(x), distance.clamp(min=1e-12).log())
        flaws = self._limits.flaws(rows)
        # While a start that is known to be healthy is observed, the output of the model for it is meaningless.
        observing = bool(self.memory["healthy"]) and int(self.memory["phase"]) == WAITING and not common_flaw(flaws)
        evidence = {
            "ready": torch.full((len(x),), not observing, device=self.device),
            AGREES_WITH_SOURCE: probabilities.argmax(dim=1) == frozen.argmax(dim=1),
            "commissioning": self.memory["phase"].expand(len(x)).clone(),
            "flaw": flaws,
            **comparison,
        }
        return StepOutput(probabilities, torch.zeros_like(evidence["ready"]), evidence), rows

    def _compare(self, features: Sequence[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the distance of each window from the training, 1 if the model knows none, and it as evidence."""
        if self._known is None:
            return features[0].new_ones(len(features[0])), {}
        evidence = self._known.evidence(features)
        return evidence[DISTANCE], evidence

    def _views(self, scores: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
        """Return class probabilities with the better-fitting reference, and those of the frozen model.

        The reference corrects what is wrong where the machine started. A window much closer to the training data than
        the start was is something that the model knows: there, its own view counts.
        """
        frozen = torch.softmax(self._ensemble.combine(scores), dim=1)
        if not bool(self.memory["shift"].any()):
            return frozen, frozen
        own = torch.softmax(self._ensemble.combine(scores - self.memory["shift"]), dim=1)
        returned = RETURNED_SHARE * self.memory["start_distance"]
        # Training windows have distances of about 1. A start that was hardly farther away does not differ from them.
        if float(returned) < 1:
            return own, frozen
        weight = own_reference_weight(returned, distance)[:, None]
        return weight * own + (1 - weight) * frozen, frozen

    def _observe(self, rows: ObservedRows) -> None:
        """Add suitable windows to the span; once it is long enough, decide what it means."""
        count = int(self.memory["count"]) + len(rows)
        span = add_thinned(self._span, count - len(rows), rows)
        self.memory |= add_prefix("span", span.tensors())
        self.memory["count"] = torch.full_like(self.memory["count"], count)
        # A start that was not steady stays the cause until the next one is complete.
        self._set(phase=WAITING, cause=NOT_STEADY if int(self.memory["cause"]) == NOT_STEADY else 0)
        if count < self._wanted:
            return
        if self._moves(span):
            self._set(phase=WAITING, cause=NOT_STEADY)
            self._clear_span()
        elif bool(self.memory["healthy"]) or (
            appears_healthy(span.scores, self._ensemble.pool) and self._limits.resembles_training(span)
        ):
            self._take_reference(span, confirmed=False)
        else:
            self._set(phase=QUESTION, cause=0)

    def _take_reference(self, rows: ObservedRows, *, confirmed: bool) -> None:
        """Take the reference of a healthy machine, if the model needs one for it."""
        self.memory["shift"] = self._shift(rows.scores, confirmed=confirmed)
        self.memory["start_distance"] = rows.distances.median().exp()
        self._set(phase=DONE, cause=0)
        self._clear_span(count=self._wanted)

    def _shift(self, scores: Tensor, *, confirmed: bool) -> Tensor:
        """Return what must be taken off the scores of a span for it to count as healthy; 0 if nothing must be."""
        return needed_shift(scores, self._ensemble.healthy_scores(), self._ensemble.pool, confirmed=confirmed)

    def _moves(self, rows: ObservedRows) -> bool:
        """Return whether a span is not steady: its level moves, or one reference does not suit all of its quarters."""
        shifted, pool = rows.scores - self._shift(rows.scores, confirmed=True), self._ensemble.pool
        quarters = [part for part in shifted.tensor_split(QUARTERS) if len(part)]
        healthy = torch.stack([torch.softmax(mean_votes(part, pool), dim=0)[0] for part in quarters])
        return level_moves(rows) or bool((healthy < 1 - CONFIDENT).any())

    def _question(self) -> str:
        """Return what makes the observed start doubtful."""
        span, classes = self._span, self.bundle.manifest.classes
        likely = classes[int(mean_votes(span.scores, self._ensemble.pool).argmax())].replace("_", " ")
        if self._limits.known is None:
            return f"looks like {likely}, but the model does not know the range of its training"
        if self._limits.resembles_training(span):
            return f"looks like {likely}"
        return f"unlike every machine of the training, most like {likely}"

    def _clear_span(self, count: int = 0) -> None:
        self.memory |= add_prefix("span", self._nothing.tensors())
        self.memory["count"] = torch.tensor(count, device=self.device)

    def _set(self, *, phase: int, cause: int) -> None:
        self.memory |= {
            name: torch.tensor(value, device=self.device) for name, value in {"phase": phase, "cause": cause}.items()
        }
