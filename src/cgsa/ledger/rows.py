"""The ledger: for every window, what was seen in it and why the method learnt from it or did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.config import as_table
from cgsa.errors import DataError
from cgsa.events import NO_DATA
from cgsa.ledger.columns import FIXED, Column, Columns, LabelColumn, LedgerInfo
from cgsa.live.intake.quality import WINDOW_REASONS, WindowFlags
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.cgsa import CgsaConfig
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
"""All that built-in methods give, in the order of tables and figures."""

RENAMED = {"confidence": "label_confidence"}
"""Evidence whose name a ledger needs for the probabilities of the verdict."""

_NO_WORDS = LabelColumn(np.empty(0, np.int32), ())

Reasons: TypeAlias = tuple[Tensor, tuple[str, ...]]
"""Which reason each window has, by its place among these words."""


def reasons(method: OnlineMethod, output: StepOutput) -> Reasons:
    """Return why each window was learnt from or not.

    A method that has ``reasons(output)`` tells them itself; of any other they
    are told from what it accepted.
    """
    tell = getattr(method, "reasons", None)
    if tell is not None:
        return cast(Reasons, tell(output))
    if output.accepted is None:
        return torch.zeros(len(output.probabilities), dtype=torch.int64), (NEVER_LEARNS,)
    if isinstance(method.config, CgsaConfig) and {"deviation", "confidence"} <= output.evidence.keys():
        return gate_reasons(output.accepted, output.evidence["deviation"], output.evidence["confidence"], method.config)
    return (~output.accepted).long(), (LEARNT, NOT_CHOSEN)


def gate_reasons(accepted: Tensor, deviation: Tensor, confidence: Tensor, gate: CgsaConfig) -> Reasons:
    """Return which criteria of eq. (11) each window failed."""
    # The gate's own comparisons, turned round as wholes: NaN fails them here as it does there.
    deviates = ~(deviation < gate.tau) & gate.by_residual
    unsure = ~(confidence > gate.min_confidence) & gate.by_confidence
    code = deviates.long() + 2 * unsure.long()
    code[deviation.isnan() & gate.by_residual] = 4
    code[accepted] = 5
    return code, (NOT_CHOSEN, DEVIATES, NOT_CONFIDENT, NEITHER, WARMING_UP, LEARNT)


class LedgerRecorder:
    """Turns what a method says into rows of a ledger, numbered along the whole stream.

    Parameters
    ----------
    method
        Whose reasons are told.
    write
        Takes the rows of each batch; nothing of them is kept here.
    """

    def __init__(self, method: OnlineMethod, write: Callable[[Columns], None]) -> None:
        self.windows = 0
        """Rows so far, over all recordings."""
        self._method = method
        self._write = write

    def add(self, output: StepOutput, *, time: npt.NDArray[np.float64], source: str) -> None:
        """Write one row for each window of a step; ``time`` is the second at which each begins."""
        classes = self._method.bundle.manifest.classes
        told = reasons(self._method, output)
        self._write(rows(output, told, classes, first=self.windows, time=time, source=source))
        self.windows += len(time)


def rows(
    output: StepOutput,
    told: Reasons,
    classes: tuple[str, ...],
    *,
    first: int,
    time: npt.NDArray[np.float64],
    source: str,
) -> Columns:
    """Return one row for each window of a step, numbered from ``first`` on."""
    confidence, verdict = output.probabilities.max(dim=1)
    code, words = told
    found = {"verdict": verdict, "reason": code, "confidence": confidence}
    if output.accepted is not None:
        found["accepted"] = output.accepted
    found |= _evidence(output)
    # All columns leave the device in one piece: each copy of its own would wait for the GPU. Codes stay exact.
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


def with_flagged(
    columns: Columns | None,
    flags: WindowFlags,
    *,
    first: int,
    time: npt.NDArray[np.float64],
    source: str,
) -> Columns:
    """Return a row for each window of a batch of which ``columns`` has those that could be believed.

    The others have no verdict and no figures, and what is wrong with them as the reason.
    """
    good, count = flags.good, len(time)
    said = columns or {"confidence": np.empty(0, np.float32), "verdict": _NO_WORDS, "reason": _NO_WORDS}
    filled: dict[str, Column] = {}
    for name, column in said.items():
        if isinstance(column, LabelColumn):
            # The words that only flagged windows need stand behind the others.
            more, codes = (WINDOW_REASONS, flags.worst) if name == "reason" else ((NO_DATA,), np.zeros(count))
            own = np.asarray(codes, np.int32) + len(column.words)
            own[good] = column.codes
            filled[name] = LabelColumn(own, (*column.words, *more))
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
    """Return what a reader of a ledger must know of the method and its model."""
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
    """Return the evidence under the names of its columns."""
    named = {RENAMED.get(name, name): column for name, column in output.evidence.items()}
    taken = [name for name in named if name in FIXED]
    if taken or len(named) < len(output.evidence):
        raise DataError(
            f"evidence {', '.join(output.evidence)}: a ledger has columns {', '.join(FIXED)} of its own and calls "
            f"'confidence' 'label_confidence'; the method must give it another name"
        )
    return named
