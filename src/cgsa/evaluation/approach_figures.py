"""What a person in front of the machine sees of an approach: right verdicts, false alarms, and the delay of the alarm.

Windows of different approaches have different lengths and steps, so what is compared is what each of them shows at the
same times: the verdict and alarm of its last window that has ended. An approach with longer windows pays for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.windows import Segment
from cgsa.evaluation.approaches import ApproachRun
from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray
from cgsa.metrics.calibration import expected_calibration_error
from cgsa.metrics.detection import detection_delay, false_alarms, named_delay

STEP_SECONDS = 0.05
"""Distance of the times at which approaches are compared."""
RIGHT_SHARE = 0.9
"""Share of right verdicts from which an approach may count as right; what changes abruptly cannot be known at once."""


@dataclass(frozen=True, eq=False)
class StreamTruth:
    """What was true along a stream, at the end of each interval of :data:`STEP_SECONDS`."""

    time: DoubleArray
    label: IntArray
    conditions: dict[str, DoubleArray]
    """Measured operating conditions by name."""
    borders: tuple[float, ...]
    """Seconds at which stages begin, and the end of the last one."""

    @classmethod
    def of(cls, segments: Sequence[Segment], conditions: Sequence[str]) -> StreamTruth:
        """Return the truth of the segments of a stream."""
        rate = segments[0].recording.sample_rate
        ends = np.cumsum([segment.recording.samples for segment in segments])
        samples = np.arange(1, int(ends[-1] / rate / STEP_SECONDS) + 1) * round(STEP_SECONDS * rate)
        samples = np.minimum(samples, ends[-1])
        inside = np.searchsorted(ends, samples, side="left")
        traces = {name: np.concatenate([one.recording.conditions[name] for one in segments]) for name in conditions}
        first = [place for place, one in enumerate(segments) if not place or one.stage != segments[place - 1].stage]
        begins = np.concatenate([[0], ends])
        return cls(
            samples / rate,
            np.array([segment.label for segment in segments])[inside],
            {name: trace[samples - 1].astype(np.float64) for name, trace in traces.items()},
            (*(float(begins[place] / rate) for place in first), float(ends[-1] / rate)),
        )

    @property
    def fault(self) -> int:
        """The class of the fault that sets in; 0 if none does."""
        return int(self.label.max())

    @property
    def onset(self) -> float | None:
        """Seconds at which the fault sets in."""
        faulty = np.flatnonzero(self.label)
        return float(self.time[faulty[0]] - STEP_SECONDS) if len(faulty) else None


@dataclass(frozen=True)
class ApproachFigures:
    """The figures of one approach on one stream."""

    decisions_right: float
    """Share of single windows that are diagnosed correctly."""
    verdicts_right: float
    """Share of the time during which the verdict is right."""
    healthy_right: float
    """The same while the machine is healthy; NaN if it never is."""
    faulty_right: float
    """The same while it is faulty; NaN if it never is."""
    false_alarms: int
    """Alarms raised while the machine is healthy."""
    alarm_at_onset: bool
    """Whether a false alarm is still active when the fault sets in."""
    delay: float | None
    """Seconds from the onset to an alarm; 0 if one is active already, None if there is none."""
    named_delay: float | None
    """Seconds from the onset to an alarm that names the fault."""
    ece: float
    """Calibration error of the single decisions: by how much their confidence differs from their accuracy."""

    @property
    def right(self) -> bool:
        """Whether the approach is right: verdicts nearly always, no false alarm, and an alarm that names the fault."""
        return self.verdicts_right >= RIGHT_SHARE and not self.false_alarms and self.named_delay is not None


def counted_from(runs: Sequence[ApproachRun]) -> float:
    """Return the time from which all approaches give verdicts of their own; shares are counted from then on."""
    return max(float(run.end[run.ready][0]) for run in runs)


def shown(run: ApproachRun, truth: StreamTruth, values: IntArray) -> IntArray:
    """Return what an approach shows at the times of the truth, such as its ``state``; 0, healthy, before any window."""
    last = run.last_before(truth.time + 1e-9)
    return np.where(last >= 0, values[np.maximum(last, 0)], 0)


def approach_figures(run: ApproachRun, truth: StreamTruth, since: float) -> ApproachFigures:
    """Return the figures; shares are counted from ``since`` on, alarms from the start."""
    counted, windows = truth.time > since, run.end > since
    state, alarm = (shown(run, truth, values) for values in (run.state, run.alarm))
    right, correct = np.asarray(state == truth.label), run.trace.correct
    onset = np.flatnonzero(truth.label)
    standing = bool(len(onset) and onset[0] and alarm[onset[0] - 1])
    # A time stands for the interval that it ends, unless the alarm stood before the fault.
    found = [find(alarm, truth.label, STEP_SECONDS) for find in (detection_delay, named_delay)]
    delay, named = (None if one is None else 0.0 if standing and one == 0 else one + STEP_SECONDS for one in found)
    return ApproachFigures(
        decisions_right=float(correct[windows].mean()),
        verdicts_right=_share(right, counted),
        healthy_right=_share(right, counted & (truth.label == 0)),
        faulty_right=_share(right, counted & (truth.label != 0)),
        false_alarms=false_alarms(alarm, truth.label),
        alarm_at_onset=standing,
        delay=delay,
        named_delay=named,
        ece=expected_calibration_error(run.trace.confidence[windows], correct[windows]),
    )


def _share(right: BoolArray, counted: BoolArray) -> float:
    return float(right[counted].mean()) if counted.any() else float("nan")
