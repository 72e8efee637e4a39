"""Commissioning: how a method gets to know a healthy start of the machine, whatever it then does with it.

The start is observed as soon as it is suitable: the machine runs, its signal resembles
the training, and it is steady. If it looks healthy, or is known to be, it becomes a
reference of the machine. If not, a person is asked. A reference can be taken from the
history later, repeated after a repair, or taken back.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from cgsa.errors import DataError
from cgsa.events import CommissioningState, CommissioningStatus
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import StepOutput
from cgsa.online.healthy_start import (
    CAUSES,
    EXPLANATIONS,
    NOT_STEADY,
    SENSOR,
    ObservedRows,
    StartLimits,
    add_thinned,
    common_flaw,
    level_moves,
)
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY
from cgsa.online.score_history import ScoreHistory

MIN_WINDOWS = 4
"""Least windows of the healthy start."""
STATES: tuple[CommissioningState, ...] = ("waiting", "question", "done", "faulty", "withdrawn")
"""Meaning of the codes of states."""
WAITING, QUESTION, DONE, FAULTY, WITHDRAWN = range(len(STATES))
UNSUITABLE, QUESTION_OPEN, NO_REFERENCE = "unsuitable for the healthy span", "question open", "without a reference"
"""Why a window was not used for the reference; stored in ledgers beside those of method ``reference``."""


class CommissionedMethod(AdaptingMethod):
    """A method that observes a healthy start of the machine, and asks if it is in doubt.

    The settings of a method have ``seconds``, ``healthy_start`` and ``history_seconds``.
    """

    def observe_start(self, scores: tuple[int, int], features: int | None = None) -> None:
        """Begin to observe a healthy start.

        ``scores`` is the shape of what is kept of a window, and ``features`` the number of those that are kept of
        the start alone.
        """
        manifest = self.bundle.manifest
        self._limits = StartLimits.of(manifest, self.device)
        self._wanted = max(MIN_WINDOWS, round(self.config.seconds * manifest.sample_rate / manifest.window.step))
        conditions = len(manifest.conditions) if self.uses_conditions else None
        self._nothing = ObservedRows.empty(
            *scores, len(manifest.channels), self.device, conditions=conditions, features=features
        )
        self.memory |= add_prefix("history", ScoreHistory.empty(self._nothing.without_features()).tensors())
        self.repeat(healthy=self.config.healthy_start)

    @property
    def commissioning(self) -> CommissioningStatus:
        """How far the commissioning is."""
        state, cause = STATES[int(self.memory["phase"])], CAUSES[int(self.memory["cause"])]
        observed = min(1.0, int(self.memory["count"]) / self._wanted)
        if cause is not None:
            text = f"waiting: {EXPLANATIONS[cause]}"
        elif state == "waiting":
            text = f"waiting: observing the healthy start, {observed:.0%} of {self.config.seconds:g} s"
        else:
            text = self._describe(state)
        return CommissioningStatus(state, cause, text, observed, self._has_reference)

    def repeat(self, *, healthy: bool) -> None:
        """Discard references and observe a new start; ``healthy`` is whether the machine is known to be healthy."""
        self._discard_references()
        self.memory["healthy"] = torch.tensor(healthy, device=self.device)
        self._set(phase=WAITING, cause=0)
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
        """Answer that the machine is faulty: it gets no reference."""
        if int(self.memory["phase"]) not in {WAITING, QUESTION}:
            raise DataError(f"no question is open ({self.commissioning.text}); take the reference back instead")
        self._clear_span()
        self._set(phase=FAULTY, cause=0)

    def withdraw(self) -> None:
        """Take the references of the machine back."""
        if not self._has_reference:
            raise DataError(f"no reference of this machine is in use ({self.commissioning.text})")
        self._discard_references()
        self._set(phase=WITHDRAWN, cause=0)

    def take_from_history(self, begin: float, end: float) -> None:
        """Take a reference from an interval of the history in which the machine was healthy, if it is suitable."""
        rows = self._between(begin, end)
        cause = CAUSES[common_flaw(self._limits.flaws(rows)) or (NOT_STEADY if self._moves(rows) else 0)]
        if cause is not None:
            raise DataError(f"no reference can be taken from {begin:.1f} to {end:.1f} s: {EXPLANATIONS[cause]}")
        self._take_reference(rows, confirmed=True)

    def interrupt(self, cause: int = SENSOR) -> None:
        """Start the span anew; by default since the quality gate rejected too many windows."""
        if int(self.memory["phase"]) == WAITING:
            self._set(phase=WAITING, cause=cause)
            self._clear_span()

    def reasons(self, output: StepOutput) -> tuple[Tensor, tuple[str, ...]]:
        """Return why each window was used for the reference or not: codes, and their texts."""
        texts = (BEFORE_REFERENCE, QUESTION_OPEN, REFERENCE_READY, NO_REFERENCE, NO_REFERENCE)
        code = output.evidence["commissioning"].long()
        code[(code == WAITING) & (output.evidence["flaw"] > 0)] = len(texts)
        if output.accepted is not None:
            code[output.accepted] = len(texts) + 1
        return code, (*texts, UNSUITABLE, IN_HEALTHY_SPAN)

    @property
    @abstractmethod
    def _has_reference(self) -> bool:
        """Whether a reference of the machine is in use."""

    @abstractmethod
    def _describe(self, state: CommissioningState) -> str:
        """Return a state after the wait as a sentence."""

    @abstractmethod
    def _discard_references(self) -> None:
        """Return to the model as trained."""

    @abstractmethod
    def _keep_reference(self, rows: ObservedRows, *, confirmed: bool) -> None:
        """Keep what healthy rows say about the machine; ``confirmed`` is whether a person confirmed these very rows."""

    @abstractmethod
    def _appears_healthy(self, span: ObservedRows) -> bool:
        """Return whether an observed start needs no answer by a person."""

    @abstractmethod
    def _output(self, x: Tensor) -> tuple[StepOutput, ObservedRows]:
        """Return the diagnosis of windows, with no window accepted yet, and what may be kept of them."""

    @abstractmethod
    def _remember(self, rows: ObservedRows) -> None:
        """Add a batch to the history."""

    def _moves(self, rows: ObservedRows) -> bool:
        """Return whether a span is not steady."""
        return level_moves(rows)

    def _between(self, begin: float, end: float) -> ObservedRows:
        """Return the history of an interval."""
        return self._history.between(begin, end)

    @property
    def _span(self) -> ObservedRows:
        return ObservedRows(**select_prefix("span", self.memory))

    @property
    def _history(self) -> ScoreHistory:
        return ScoreHistory.from_tensors(select_prefix("history", self.memory))

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
        self._remember(rows)
        return output

    @torch.no_grad()
    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._output(x)[0]

    def _start_evidence(self, rows: ObservedRows) -> dict[str, Tensor]:
        """Return the evidence of windows that concerns the commissioning."""
        flaws, phase = self._limits.flaws(rows), self.memory["phase"]
        # While a start that is known to be healthy is observed, the output of the model for it does not count.
        observing = bool(self.memory["healthy"]) and int(phase) == WAITING and not common_flaw(flaws)
        return {
            "ready": torch.full((len(rows),), not observing, device=self.device),
            "commissioning": phase.expand(len(rows)).clone(),
            "flaw": flaws,
        }

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
            # The answer in advance was about this start. A later one may already show a fault.
            self.memory["healthy"] = torch.zeros_like(self.memory["healthy"])
            self._set(phase=WAITING, cause=NOT_STEADY)
            self._clear_span()
        elif bool(self.memory["healthy"]) or self._appears_healthy(span):
            self._take_reference(span, confirmed=False)
        else:
            self._set(phase=QUESTION, cause=0)

    def _take_reference(self, rows: ObservedRows, *, confirmed: bool) -> None:
        self._keep_reference(rows, confirmed=confirmed)
        self._set(phase=DONE, cause=0)
        self._clear_span(count=self._wanted)

    def _clear_span(self, count: int = 0) -> None:
        self.memory |= add_prefix("span", self._nothing.tensors())
        self.memory["count"] = torch.tensor(count, device=self.device)

    def _set(self, *, phase: int, cause: int) -> None:
        self.memory |= {
            name: torch.tensor(value, device=self.device) for name, value in {"phase": phase, "cause": cause}.items()
        }
