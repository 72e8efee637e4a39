"""Ledger rows: for every window, its diagnosis, the evidence, and why it was used for adaptation or not."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.config import as_table
from cgsa.errors import DataError
from cgsa.events import NO_DATA
from cgsa.ledger.columns import FIXED, Column, Columns, LabelColumn, LedgerInfo
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.gate import ReliabilityGate
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY

LEARNT = "learnt"
WARMING_UP = "queue warming up"
DEVIATES = "residual deviates"
NOT_CONFIDENT = "not confident"
NEITHER = "deviates and not confident"
NOT_CHOSEN = "not chosen"
NEVER_LEARNS = "never learns"
REASONS = (
    LEARNT,
    WARMING_UP,
    DEVIATES,
    NOT_CONFIDENT,
    NEITHER,
    NOT_CHOSEN,
    NEVER_LEARNS,
    IN_HEALTHY_SPAN,
    BEFORE_REFERENCE,
    REFERENCE_READY,
)
"""Reasons that built-in methods give, in the order of tables and figures."""

RENAMED = {"confidence": "label_confidence"}
"""Evidence that gets another column name, since ``confidence`` is that of the verdict."""

Reasons: TypeAlias = tuple[Tensor, tuple[str, ...]]
"""For each window the index of its reason, and the reasons."""


@runtime_checkable
class GivesReasons(Protocol):
    """A method that knows itself why it used a window for adaptation or not."""

    def reasons(self, output: StepOutput) -> Reasons:
        """Return the reason of each window."""
        ...


def reasons(method: OnlineMethod, output: StepOutput) -> Reasons:
    """Return why each window was used for adaptation or not; for most methods, what they accepted tells it."""
    if isinstance(method, GivesReasons):
        return method.reasons(output)
    if output.accepted is None:
        return torch.zeros(len(output.probabilities), dtype=torch.int64), (NEVER_LEARNS,)
    if isinstance(method, Cgsa) and {"deviation", "confidence"} <= output.evidence.keys():
        return gate_reasons(output.accepted, output.evidence["deviation"], output.evidence["confidence"], method.gate)
    return (~output.accepted).long(), (LEARNT, NOT_CHOSEN)


def gate_reasons(accepted: Tensor, deviation: Tensor, confidence: Tensor, gate: ReliabilityGate) -> Reasons:
    """Return which criteria of eq. (11) each window fails."""
    # The negated comparisons of the gate, so that NaN fails them here as it does there.
    deviates = ~(deviation < gate.tau) & gate.by_residual
    unsure = ~(confidence > gate.min_confidence) & gate.by_confidence
    code = deviates.long() + 2 * unsure.long()
    code[deviation.isnan() & gate.by_residual] = 4
    code[accepted] = 5
    return code, (NOT_CHOSEN, DEVIATES, NOT_CONFIDENT, NEITHER, WARMING_UP, LEARNT)


def ledger_rows(
    output: StepOutput,
    why: Reasons,
    classes: tuple[str, ...],
    *,
    first: int,
    time: npt.NDArray[np.float64],
    source: str,
) -> Columns:
    """Return one row per window of a step, numbered from ``first``."""
    confidence, verdict = output.probabilities.max(dim=1)
    code, words = why
    found = {"verdict": verdict, "reason": code, "confidence": confidence}
    if output.accepted is not None:
        found["accepted"] = output.accepted
    found |= _evidence(output)
    # All columns leave the device in one copy, since each copy waits for the GPU; float32 keeps the codes exact.
    device = output.probabilities.device
    table = torch.stack([column.detach().to(device, torch.float32) for column in found.values()]).cpu().numpy()
    numbers = dict(zip(found, table, strict=True))
    columns: dict[str, Column] = {
        **numbers,
        "window": np.arange(first, first + len(time)),
        "time": time,
        "source": LabelColumn(np.zeros(len(time), np.int32), (source,)),
        "verdict": LabelColumn(numbers["verdict"].astype(np.int32), classes),
        "reason": LabelColumn(numbers["reason"].astype(np.int32), words),
    }
    if "accepted" in numbers:
        columns["accepted"] = numbers["accepted"] > 0
    return columns


def with_rejected(
    columns: Columns | None, quality: LabelColumn, *, first: int, time: npt.NDArray[np.float64], source: str
) -> Columns:
    """Return one row per window of a batch, from the rows of those that the quality gate accepted.

    ``quality`` has code 0 for them; the others get their flaw as the reason, no
    verdict, and NaN as evidence.
    """
    good, count = quality.codes == 0, len(time)
    none = LabelColumn(np.empty(0, np.int32), ())
    accepted = columns or {"confidence": np.empty(0, np.float32), "verdict": none, "reason": none}
    filled: dict[str, Column] = {}
    for name, column in accepted.items():
        if isinstance(column, LabelColumn):
            more, codes = (quality.labels, quality.codes) if name == "reason" else ((NO_DATA,), np.zeros(count))
            own = np.asarray(codes, np.int32) + len(column.labels)
            own[good] = column.codes
            filled[name] = LabelColumn(own, (*column.labels, *more))
        else:
            blank = np.zeros(count, column.dtype) if column.dtype == np.bool_ else np.full(count, np.nan, np.float32)
            blank[good] = column
            filled[name] = blank
    return {
        **filled,
        "window": np.arange(first, first + count),
        "time": time,
        "source": LabelColumn(np.zeros(count, np.int32), (source,)),
    }


def describe(method: OnlineMethod, name: str, *, batch_size: int) -> LedgerInfo:
    """Return what readers of a ledger need to know about the method and its model."""
    model = method.bundle.manifest
    return LedgerInfo(
        method=name,
        classes=model.classes,
        seconds_per_window=model.window.step / model.sample_rate,
        settings=as_table(method.config),
        seed=method.seed,
        batch_size=batch_size,
        scenario=model.scenario,
        objective=model.objective,
        model_seed=model.seed,
    )


def _evidence(output: StepOutput) -> dict[str, Tensor]:
    """Return the evidence under its column names."""
    named = {RENAMED.get(name, name): column for name, column in output.evidence.items()}
    taken = [name for name in named if name in FIXED]
    if taken or len(named) < len(output.evidence):
        raise DataError(
            f"evidence {', '.join(output.evidence)}: a ledger has columns {', '.join(FIXED)} of its own and calls "
            f"'confidence' 'label_confidence'; the method must give it another name"
        )
    return named
