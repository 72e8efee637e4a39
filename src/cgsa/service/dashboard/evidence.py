"""The newest windows of a machine in the ledger: their evidence, and why each was or was not used for learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.store import Snapshot
from cgsa.metrics.accuracy import BoolArray, DoubleArray
from cgsa.nn.bundle import Manifest
from cgsa.nn.own_start import CHANGE
from cgsa.online.evidence import evidence_by_condition

PERIOD_SECONDS = 20.0
"""How far back windows are read..."""
MAX_WINDOWS = 40_000
"""...unless they are more than this."""
MAX_POINTS = 400
MAX_ROWS = 50


@dataclass(frozen=True, eq=False)
class Trace:
    """One quantity of every window, and the range to compare it with."""

    name: str
    values: DoubleArray
    """NaN for windows without a value."""
    mean: DoubleArray | None = None
    """Mean of the queue before each window; None if the method has no queue."""
    training_range: tuple[float | None, float | None] = (None, None)
    """Lower and upper bound of the values in training; None where unknown."""
    logarithmic: bool = False
    """Whether it is positive and may span orders of magnitude, as distances do."""
    limit_name: str = "upper end of the training data"
    """What the upper bound is if there is no lower one."""


@dataclass(frozen=True)
class WindowRow:
    """One window in a table."""

    window: int
    time: float
    verdict: str
    confidence: float | None
    learnt: bool | None
    reason: str
    value: float | None
    """Of the first trace."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The newest windows."""

    windows: int = 0
    seconds: float = 0.0
    """From the first to the last window."""
    time: DoubleArray = field(default_factory=lambda: np.empty(0))
    """Of the windows in the traces."""
    accepted: BoolArray | None = None
    """Which of them were used for learning; None if the method never learns."""
    traces: tuple[Trace, ...] = ()
    reasons: tuple[tuple[str, int], ...] = ()
    """Number of windows with each reason, most frequent first."""
    covered: float | None = None
    """Share of the windows within the range of the training data; None if unknown."""
    rows: tuple[WindowRow, ...] = ()
    """Newest first."""


def read_evidence(store: Snapshot, machine: str, manifest: Manifest, now: float) -> Evidence:
    """Read the newest windows of a machine."""
    rate = manifest.sample_rate / manifest.window.step
    begin = now - min(PERIOD_SECONDS, 0.5 * MAX_WINDOWS / rate)
    return ledger_evidence(store.ledger(machine, begin, now + 1.0, limit=MAX_WINDOWS), manifest)


def ledger_evidence(columns: Columns, manifest: Manifest) -> Evidence:
    """Return the evidence in rows of a ledger."""
    if not columns:
        return Evidence()
    time = np.asarray(columns["time"], dtype=np.float64)
    numbers = {
        name: np.asarray(column, dtype=np.float64)
        for name, column in columns.items()
        if not isinstance(column, LabelColumn)
    }
    shown = np.arange(len(time))[:: max(1, -(-len(time) // MAX_POINTS))]
    accepted = numbers.get("accepted")
    covered = numbers.get("covered", np.empty(0))
    covered = covered[np.isfinite(covered)]
    reasons = _texts(columns, "reason")
    traces = _traces(numbers, manifest)
    return Evidence(
        windows=len(time),
        seconds=float(time[-1] - time[0]) if len(time) else 0.0,
        time=time[shown],
        accepted=None if accepted is None else accepted[shown] > 0,
        traces=tuple(
            replace(one, values=one.values[shown], mean=None if one.mean is None else one.mean[shown]) for one in traces
        ),
        reasons=tuple(Counter(reasons).most_common()),
        covered=float(covered.mean()) if len(covered) else None,
        rows=_rows(columns, numbers, reasons, traces),
    )


def _traces(numbers: Mapping[str, DoubleArray], manifest: Manifest) -> tuple[Trace, ...]:
    """Return the responses to each condition, or the distance to the training data."""
    responses = evidence_by_condition("response", numbers)
    means = evidence_by_condition("queue_mean", numbers)
    ranges = manifest.usual_responses or ()
    found = [
        Trace(
            name=f"residual response to {name or manifest.conditions[0].name}",
            values=values,
            mean=means.get(name),
            training_range=ranges[number] if number < len(ranges) else (None, None),
        )
        for number, (name, values) in enumerate(responses.items())
    ]
    if "distance" in numbers:
        limit = None if manifest.calibration is None else manifest.calibration.distance
        name = "distance to the training data"
        found.append(Trace(name, numbers["distance"], training_range=(None, limit), logarithmic=True))
    if CHANGE in numbers:
        name = "distance from the healthy start, relative to the limit"
        limit_name = "limit for healthy machines"
        found.append(Trace(name, numbers[CHANGE], training_range=(None, 1.0), logarithmic=True, limit_name=limit_name))
    return tuple(found)


def _rows(
    columns: Columns, numbers: Mapping[str, DoubleArray], reasons: list[str], traces: tuple[Trace, ...]
) -> tuple[WindowRow, ...]:
    verdicts, accepted = _texts(columns, "verdict"), numbers.get("accepted")
    return tuple(
        WindowRow(
            window=int(numbers["window"][index]),
            time=float(numbers["time"][index]),
            verdict=verdicts[index],
            confidence=_finite(numbers["confidence"][index]),
            learnt=None if accepted is None else bool(accepted[index] > 0),
            reason=reasons[index],
            value=_finite(traces[0].values[index]) if traces else None,
        )
        for index in range(len(reasons) - 1, max(-1, len(reasons) - 1 - MAX_ROWS), -1)
    )


def _texts(columns: Columns, name: str) -> list[str]:
    column = columns[name]
    return [column.labels[code] for code in column.codes] if isinstance(column, LabelColumn) else list(map(str, column))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
