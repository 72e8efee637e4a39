"""The diagnosis of a stream of windows: an online method, the decision over time, and the trust in both.

``cgsa watch``, the live watch, the benchmark and the library all drive a
:class:`Diagnoser`, so a stream gets the same verdicts wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.decide.decision import Decision, DecisionMaker
from cgsa.diagnosis.trust import SourceAgreement, trust_of, with_trust
from cgsa.events import NO_DATA, CommissioningStatus, Diagnosis, Trust
from cgsa.ledger.columns import Columns
from cgsa.ledger.rows import ledger_rows, reasons
from cgsa.nn.known import QUESTION
from cgsa.online.base import OnlineMethod, StepOutput


@dataclass(frozen=True, eq=False)
class WindowDiagnoses:
    """The diagnosis of each window of a batch."""

    output: StepOutput
    """What the method returned, and with a decision also the evidence for its trust."""
    decision: Decision | None
    """None without a decision."""


class Diagnoser:
    """Diagnoses the windows of one machine in stream order and adapts to them.

    The decision maker joins windows over time into verdict and alarm. Without it, every window is diagnosed on its own
    and nothing is said about trust.
    """

    def __init__(self, method: OnlineMethod, decision_maker: DecisionMaker | None = None) -> None:
        self.method, self.decision_maker = method, decision_maker
        self.manifest = method.bundle.manifest
        self._agreement = SourceAgreement(method.bundle, device=method.device, labels=method.source_labels)

    def step(self, windows: Tensor, *, learn: bool = True, conditions: Tensor | None = None) -> WindowDiagnoses:
        """Diagnose a batch of windows, (windows, channels, length), then adapt to it unless ``learn`` is false.

        ``conditions`` are as for :meth:`~cgsa.online.base.OnlineMethod.step`.
        """
        output = self.method.step(windows, learn=learn, conditions=conditions)
        if self.decision_maker is None:
            return WindowDiagnoses(output, None)
        output = self._agreement.add_to(output, windows)
        decided = self.decision_maker.step(output.for_decisions, output.evidence)
        return WindowDiagnoses(with_trust(output, decided, self.decision_maker, self.manifest), decided)

    def rows(
        self,
        batch: WindowDiagnoses,
        *,
        first: int,
        time: npt.NDArray[np.float64],
        source: str,
        paused: str | None = None,
    ) -> Columns:
        """Return one ledger row per window, numbered from ``first``; ``paused`` is why none was used for adaptation."""
        count = len(batch.output.probabilities)
        why = (
            reasons(self.method, batch.output) if paused is None else (torch.zeros(count, dtype=torch.int64), (paused,))
        )
        return ledger_rows(batch.output, why, self.manifest.classes, first=first, time=time, source=source)

    def event(
        self,
        batch: WindowDiagnoses | None,
        *,
        number: int,
        source: str,
        span: tuple[float, float],
        flagged: Mapping[str, int] | None = None,
        paused: str | None = None,
    ) -> Diagnosis:
        """Return the event of a batch.

        ``batch`` is None if the quality gate accepted no window, and ``number`` counts batches from 0 along the stream.
        ``span`` has the seconds at which the first window begins and the last one ends, ``flagged`` the number of
        windows that the quality gate rejected by reason, and ``paused`` why no window was used for adaptation; it is
        None if the method was free to choose.
        """
        rejected, commissioning = flagged or {}, self.method.commissioning
        describe = partial(
            Diagnosis,
            batch=number,
            source=source,
            begin=span[0],
            end=span[1],
            flagged=rejected,
            commissioning=commissioning,
        )
        windows = sum(rejected.values())
        if batch is None:
            return describe(
                windows=windows,
                verdict=NO_DATA,
                state=NO_DATA,
                probabilities={},
                accepted=None,
                deviation=None,
            )
        output = batch.output
        windows += len(output.probabilities)
        mean = output.probabilities.mean(dim=0).tolist()
        deviation = output.evidence.get("deviation")
        known = np.array([]) if deviation is None else deviation[~deviation.isnan()].cpu().numpy()
        state, alarm = self._joined_state(batch.decision)
        return describe(
            windows=windows,
            verdict=self.manifest.classes[int(np.argmax(mean))],
            probabilities=dict(zip(self.manifest.classes, mean, strict=True)),
            accepted=None if output.accepted is None else int(output.accepted.sum()),
            deviation=float(known.mean()) if len(known) else None,
            state=state,
            alarm=alarm,
            trust=self._trust(batch, windows, paused, commissioning),
            sensor_question=self._sensor_question(output),
            change=self.method.change,
        )

    def _trust(
        self, batch: WindowDiagnoses, windows: int, paused: str | None, commissioning: CommissioningStatus | None
    ) -> Trust | None:
        if batch.decision is None:
            return None
        trust = trust_of(batch.output, windows=windows, paused=paused)
        return trust if commissioning is None or paused is not None else replace(trust, note=commissioning.text)

    def _sensor_question(self, output: StepOutput) -> str | None:
        """Return the most frequent question of a batch, if most of its windows raise one."""
        known, numbers = self.manifest.known, output.evidence.get(QUESTION)
        if known is None or numbers is None or not bool((numbers > 0).double().mean() > 0.5):
            return None
        return known.question(int(numbers[numbers > 0].mode().values))

    def _joined_state(self, decided: Decision | None) -> tuple[str | None, str | None]:
        """Return the state at the end of a batch, joined over time, and the fault of an active alarm."""
        if self.decision_maker is None or decided is None:
            return None, None
        alarm = int(decided.alarm_state[-1])
        return self.decision_maker.states[int(decided.state[-1])], self.decision_maker.states[alarm] if alarm else None
