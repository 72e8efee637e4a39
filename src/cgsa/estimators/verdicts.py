"""The diagnosis of single windows as columns: what a machine returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from cgsa.diagnosis.diagnoser import WindowDiagnoses
from cgsa.diagnosis.trust import CHANCE, COVERED
from cgsa.errors import ConfigError, DataError
from cgsa.events import NO_DATA
from cgsa.ledger.columns import LabelColumn
from cgsa.live.intake.quality import GOOD
from cgsa.live.signal_diagnoser import DiagnosedBatch
from cgsa.nn.bundle import Manifest
from cgsa.nn.known import QUESTION
from cgsa.online.evidence import AGREES_WITH_SOURCE

FloatColumn = npt.NDArray[np.float64]
TextColumn = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class WindowVerdicts:
    """One row per window, in the order of time.

    A window that the quality gate rejects has its flaw as ``quality``, ``no data`` as verdict, and NaN as numbers.
    """

    classes: tuple[str, ...]
    """Names of the columns of ``probabilities``, the healthy class first."""
    time: FloatColumn
    """Begin of each window in seconds."""
    verdict: TextColumn
    """State of the machine, joined over the windows so far: a class, ``unknown`` or ``no data``."""
    alarm: TextColumn
    """The fault of the active alarm; None if there is none."""
    probabilities: FloatColumn
    """(windows, classes): what the window itself says, before it is joined with others."""
    trust: FloatColumn
    """Calibrated probability that the most probable class of the window is right."""
    coverage: FloatColumn
    """1 where the window is within the range of the training, 0 where it is not, NaN if the model does not know."""
    agreement: FloatColumn
    """1 where the model as trained gives the same class, 0 where it does not."""
    sensor_question: TextColumn
    """What to check about the sensor or the machine; None if the window raises no question."""
    quality: TextColumn
    """``good``, or why the quality gate rejected the window."""

    def __len__(self) -> int:
        return len(self.time)

    @property
    def probability(self) -> FloatColumn:
        """Probability of the most probable class of each window; NaN without one."""
        return np.asarray(self.probabilities.max(axis=1))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return plain lists by name, one probability per class; NaN becomes None, as JSON needs it."""
        return {name: _plain(column) for name, column in self._columns().items()}

    def to_pandas(self) -> Any:
        """Return a data frame, one row per window; needs pandas."""
        try:
            import pandas as pd  # noqa: PLC0415 - pandas is optional
        except ImportError as error:
            raise ConfigError("to_pandas needs pandas, which is not installed; to_dict returns the same") from error
        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "time": self.time,
            "verdict": self.verdict,
            "alarm": self.alarm,
            "trust": self.trust,
            "coverage": self.coverage,
            "agreement": self.agreement,
            "sensor_question": self.sensor_question,
            "quality": self.quality,
            **{f"probability_{name}": self.probabilities[:, place] for place, name in enumerate(self.classes)},
        }

    @classmethod
    def concatenate(cls, parts: Iterable[WindowVerdicts]) -> WindowVerdicts:
        """Return the rows of several as one, in their order."""
        every = list(parts)
        if not every:
            raise DataError("no verdicts to join; expected at least one")
        names = [name for name in cls.__dataclass_fields__ if name != "classes"]
        joined = {name: np.concatenate([getattr(part, name) for part in every]) for name in names}
        return cls(every[0].classes, **joined)


def verdicts_of(batch: DiagnosedBatch, manifest: Manifest, states: tuple[str, ...]) -> WindowVerdicts:
    """Return the rows of a batch; ``states`` are those of its decisions."""
    verdict, reason = (cast(LabelColumn, batch.rows[name]) for name in ("verdict", "reason"))
    good = np.array([verdict.labels[code] != NO_DATA for code in verdict.codes])
    quality = _texts(len(good), GOOD)
    quality[~good] = [reason.labels[code] for code in reason.codes[~good]]
    blank = WindowVerdicts(
        classes=manifest.classes,
        time=np.asarray(batch.rows["time"], np.float64),
        verdict=_texts(len(good), NO_DATA),
        alarm=_texts(len(good), None),
        probabilities=np.full((len(good), len(manifest.classes)), np.nan),
        trust=np.full(len(good), np.nan),
        coverage=np.full(len(good), np.nan),
        agreement=np.full(len(good), np.nan),
        sensor_question=_texts(len(good), None),
        quality=quality,
    )
    if batch.diagnoses is not None:
        _fill(blank, good, batch.diagnoses, manifest, states)
    return blank


def _fill(
    rows: WindowVerdicts,
    good: npt.NDArray[np.bool_],
    found: WindowDiagnoses,
    manifest: Manifest,
    states: tuple[str, ...],
) -> None:
    """Write the diagnoses of the accepted windows into the rows."""
    evidence = found.output.evidence
    rows.probabilities[good] = found.output.probabilities.double().cpu().numpy()
    for column, name in ((rows.trust, CHANCE), (rows.coverage, COVERED), (rows.agreement, AGREES_WITH_SOURCE)):
        if name in evidence:
            column[good] = evidence[name].double().cpu().numpy()
    if found.decision is not None:
        rows.verdict[good] = [states[number] for number in found.decision.state.tolist()]
        rows.alarm[good] = [states[number] if number else None for number in found.decision.alarm_state.tolist()]
    if manifest.known is not None and QUESTION in evidence:
        numbers: list[int] = evidence[QUESTION].to(torch.int64).tolist()
        rows.sensor_question[good] = [manifest.known.question(number) for number in numbers]


def _texts(count: int, value: str | None) -> TextColumn:
    found = np.empty(count, dtype=np.object_)
    found[:] = value
    return found


def _plain(column: npt.NDArray[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]
