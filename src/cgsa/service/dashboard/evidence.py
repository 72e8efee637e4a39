"""The newest windows of a machine as the ledger has them: what was seen in each and why it was learnt from or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.store import Snapshot
from cgsa.nn.bundle import Manifest
from cgsa.online.evidence import evidence_by_condition

SECONDS = 20.0
"""How far back windows are looked at..."""
MOST_READ = 40_000
"""...unless there are more of them than this."""
MOST_POINTS = 400
MOST_ROWS = 50

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trace:
    """One figure of every window, and what it is held against."""

    name: str
    values: Floats
    """NaN where the window has none."""
    mean: Floats | None = None
    """Mean of the queue before each window; none where the method has no queue."""
    usual: tuple[float | None, float | None] = (None, None)
    """Between what bounds training saw it; none where that is not known."""
    decades: bool = False
    """Whether it is positive and may grow by orders of magnitude, as distances do."""


@dataclass(frozen=True)
class Row:
    """One window, for a table."""

    window: int
    time: float
    verdict: str
    confidence: float | None
    learnt: bool | None
    reason: str
    figure: float | None
    """The first trace."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The newest windows."""

    windows: int = 0
    seconds: float = 0.0
    """From the first to the last."""
    time: Floats = field(default_factory=lambda: np.empty(0))
    """Of the windows that are shown."""
    accepted: npt.NDArray[np.bool_] | None = None
    """Which of them were learnt from; none where the method never learns."""
    traces: tuple[Trace, ...] = ()
    reasons: tuple[tuple[str, int], ...] = ()
    """How many windows have which reason, the most frequent first."""
    covered: float | None = None
    """Share of the windows that lie where training was; none where that is not known."""
    rows: tuple[Row, ...] = ()
    """The newest first."""


def read_evidence(store: Snapshot, machine: str, about: Manifest, now: float) -> Evidence:
    """Read the newest windows of a machine."""
    rate = about.sample_rate / about.window.step
    begin = now - min(SECONDS, 0.5 * MOST_READ / rate)
    return evidence_of(store.ledger(machine, begin, now + 1.0, limit=MOST_READ), about)


def evidence_of(columns: Columns, about: Manifest) -> Evidence:
    """Return what rows of a ledger tell."""
    if not columns:
        return Evidence()
    time = np.asarray(columns["time"], dtype=np.float64)
    numbers = {name: np.asarray(column) for name, column in columns.items() if not isinstance(column, LabelColumn)}
    shown = np.arange(len(time))[:: -(-len(time) // MOST_POINTS)] if len(time) else np.arange(0)
    accepted = numbers.get("accepted")
    covered = numbers.get("covered")
    known = None if covered is None else covered[np.isfinite(covered)]
    reasons = _words(columns, "reason")
    traces = _traces(numbers, about)
    return Evidence(
        windows=len(time),
        seconds=float(time[-1] - time[0]) if len(time) else 0.0,
        time=time[shown],
        accepted=None if accepted is None else accepted[shown] > 0,
        traces=tuple(
            replace(one, values=one.values[shown], mean=None if one.mean is None else one.mean[shown]) for one in traces
        ),
        reasons=tuple(Counter(reasons).most_common()),
        covered=float(known.mean()) if known is not None and len(known) else None,
        rows=_rows(columns, numbers, reasons, traces),
    )


def _traces(numbers: Mapping[str, npt.NDArray[np.float64]], about: Manifest) -> tuple[Trace, ...]:
    """Return the responses to each condition, or the distance to all that is known."""
    responses = evidence_by_condition("response", numbers)
    means = evidence_by_condition("queue_mean", numbers)
    usual = about.usual_responses or ()
    found = [
        Trace(
            name=f"residual response to {name or about.conditions[0].name}",
            values=values.astype(np.float64),
            mean=means[name].astype(np.float64) if name in means else None,
            usual=usual[number] if number < len(usual) else (None, None),
        )
        for number, (name, values) in enumerate(responses.items())
    ]
    if "distance" in numbers:
        limit = None if about.calibration is None else about.calibration.distance
        found.append(
            Trace(
                "distance to what is known", numbers["distance"].astype(np.float64), usual=(None, limit), decades=True
            )
        )
    return tuple(found)


def _rows(
    columns: Columns, numbers: Mapping[str, npt.NDArray[np.float64]], reasons: list[str], traces: tuple[Trace, ...]
) -> tuple[Row, ...]:
    verdicts, accepted = _words(columns, "verdict"), numbers.get("accepted")
    return tuple(
        Row(
            window=int(numbers["window"][place]),
            time=float(numbers["time"][place]),
            verdict=verdicts[place],
            confidence=_known(numbers["confidence"][place]),
            learnt=None if accepted is None else bool(accepted[place] > 0),
            reason=reasons[place],
            figure=_known(traces[0].values[place]) if traces else None,
        )
        for place in range(len(reasons) - 1, max(-1, len(reasons) - 1 - MOST_ROWS), -1)
    )


def _words(columns: Columns, name: str) -> list[str]:
    column = columns[name]
    return [column.labels[code] for code in column.codes] if isinstance(column, LabelColumn) else list(map(str, column))


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
