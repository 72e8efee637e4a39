"""The paper's own statements about its method, and whether they hold for a reading and a seed.

They are qualitative, so that another machine can be held to them: they ask for an order, not for a distance. Accuracies
are totals as in the paper's table VI, means over the stages, then over the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.bench.readings.grid import METHODS_OF_A_READING
from cgsa.bench.records import RunRecord, number

LEAST_REJECTED, MOST_REJECTED = 0.05, 0.60
"""Share of windows that residual guidance rejects if it does something and leaves enough to learn from."""
KEPT_WITHIN = 0.01
"""A loss of accuracy in the in-distribution stage up to this counts as none."""


@dataclass(frozen=True)
class SeedResult:
    """What all methods of a reading reached with one seed."""

    totals: Mapping[str, float]
    """Accuracy of single windows by method."""
    joined: Mapping[str, float]
    """Accuracy of verdicts joined over time by method."""
    known: Mapping[str, float]
    """Accuracy in the last stage, whose operating condition is that of the training, by method."""
    fifths: tuple[float, ...]
    """Accuracy of pseudo-labels over five intervals of the deviation, from small to large; NaN for an empty one."""
    rejected: float
    """Share of the windows that residual guidance alone rejects."""

    @classmethod
    def of(cls, records: Mapping[str, Sequence[RunRecord]]) -> SeedResult:
        """Return the result from the records of every method, one per fault."""
        acceptance = [number(record.whole_stream, "acceptance_rate") for record in records["CAL+RCG"]]
        return cls(
            totals={name: _mean(mine, "accuracy") for name, mine in records.items()},
            joined={name: _mean(mine, "verdict_accuracy") for name, mine in records.items()},
            known={
                name: float(np.mean([number(record.rows[-2], "accuracy") for record in mine]))
                for name, mine in records.items()
            },
            fifths=_fifths(records["CGSA"]),
            rejected=1.0 - float(np.mean(acceptance)),
        )

    @property
    def gain(self) -> float:
        """By how much CGSA is ahead of its frozen model."""
        return self.totals["CGSA"] - self.totals["CAL"]


@dataclass(frozen=True)
class Statement:
    """A statement of the paper."""

    name: str
    """Heading in tables."""
    source: str
    """Where the paper makes it."""
    holds: Callable[[SeedResult], bool]


def _ordered(result: SeedResult) -> bool:
    return result.totals["CAL"] > result.totals["DANN"] > result.totals["Baseline"]


def _falls(result: SeedResult) -> bool:
    steps = np.diff(result.fifths)
    return bool((steps <= 0).all() and steps.sum() < 0)


def _rejects(result: SeedResult) -> bool:
    return LEAST_REJECTED <= result.rejected <= MOST_REJECTED


def _guided(result: SeedResult) -> bool:
    return result.totals["CGSA"] > result.totals["CAL+RCG"] and result.totals["CAL+CF"] > result.totals["CAL"]


def _kept(result: SeedResult) -> bool:
    return result.known["CGSA"] >= result.known["CAL"] - KEPT_WITHIN


STATEMENTS = (
    Statement("CAL > DANN > baseline", "ablation, table VI", _ordered),
    Statement("label accuracy falls with the deviation", "online mechanism analysis, with its figure", _falls),
    Statement("RCG rejects 5 to 60 %", "ablation: RCG differs from adapting to everything", _rejects),
    Statement("CGSA > RCG, CF > CAL", "ablation, table VI", _guided),
    Statement("ID accuracy kept", "case 1: stable in the in-distribution stage", _kept),
)
"""What a reading is scored by. NaN fails every comparison, so that nothing holds where nothing was measured."""


def results_of_seeds(
    records: Sequence[RunRecord], entries: Mapping[str, str], faults: int, trials: int
) -> dict[int, SeedResult]:
    """Return the result of every seed whose streams have all ended.

    ``entries`` has the name of the plan's entry by method, ``faults`` is the number of streams of each.
    """
    found: dict[int, SeedResult] = {}
    for trial in range(trials):
        mine = {
            method: [record for record in records if record.entry == entry and record.trial == trial]
            for method, entry in entries.items()
        }
        if all(len(mine[method]) == faults for method in METHODS_OF_A_READING):
            found[trial] = SeedResult.of(mine)
    return found


def _mean(records: Sequence[RunRecord], column: str) -> float:
    return float(np.mean([number(record.whole_stream, column) for record in records]))


def _fifths(records: Sequence[RunRecord]) -> tuple[float, ...]:
    """Return the accuracy of pseudo-labels in each fifth of the deviations of every stream, pooled over the streams."""
    known = [record.details.fifths for record in records if record.details.fifths is not None]
    if not known:
        return (float("nan"),) * 5
    windows = np.sum([one.windows for one in known], axis=0, dtype=np.float64)
    right = np.sum([one.right for one in known], axis=0, dtype=np.float64)
    shares = np.divide(right, windows, out=np.full(5, np.nan), where=windows > 0)
    return tuple(shares.tolist())
