"""What lies behind the figures of the demo: confidence, residual response, queue and trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cgsa.evaluation.approach_figures import ApproachFigures, StreamTruth
from cgsa.evaluation.approaches import ApproachRun
from cgsa.metrics.accuracy import DoubleArray
from cgsa.metrics.stream import score
from cgsa.online.evidence import evidence_by_condition
from cgsa.report.stretched_chart import Layer, Scale, StretchedChart, mean_per_interval

POINTS = 1500
"""Windows drawn as points."""
SHARE_RANGE = (-0.15, 1.15)
"""Range of an axis of shares, with room for the text at 0 and 1."""
INTERVALS = 150
"""Intervals of a mean over time."""


@dataclass(frozen=True)
class ConfidenceRow:
    """Confidence and accuracy of an approach."""

    title: str
    confidence: float
    accuracy: float
    ece: float


@dataclass(frozen=True)
class Details:
    """Charts and figures below the stream; None where no approach has them."""

    confidence: tuple[ConfidenceRow, ...]
    response: StretchedChart | None
    accepted: StretchedChart | None
    gate: str
    """What the gate of the paper's method did, in a sentence."""
    trust: StretchedChart | None


def details(
    runs: Sequence[ApproachRun], figures: Sequence[ApproachFigures], truth: StreamTruth, since: float
) -> Details:
    """Return the details of all approaches."""
    seconds = truth.borders[-1]
    gated = next((run for run in runs if run.adapts and evidence_by_condition("response", run.trace.evidence)), None)
    return Details(
        tuple(_confidence(run, found, since) for run, found in zip(runs, figures, strict=True)),
        None if gated is None else _response_chart(gated, seconds),
        None if gated is None else _accepted_chart(gated, seconds),
        "" if gated is None else _gate_text(gated),
        _trust_chart(runs[-1], seconds) if runs else None,
    )


def _confidence(run: ApproachRun, found: ApproachFigures, since: float) -> ConfidenceRow:
    counted = run.end > since
    return ConfidenceRow(
        run.approach.title, float(run.trace.confidence[counted].mean()), found.decisions_right, found.ece
    )


def _response_chart(run: ApproachRun, seconds: float) -> StretchedChart:
    """Return the residual response of windows, those used for adaptation, and the mean of the queue."""
    evidence = run.trace.evidence
    [response, *_] = evidence_by_condition("response", evidence).values()
    [mean, *_] = evidence_by_condition("queue_mean", evidence).values()
    accepted = np.asarray(run.trace.accepted)
    some = np.arange(0, len(response), max(1, len(response) // POINTS))
    values = np.asarray(response, dtype=np.float64)
    low, high = (float(one) for one in np.nanpercentile(values, (0.5, 99.5)))
    margin = 0.1 * max(high - low, 1e-6)
    scale = Scale(seconds, low - margin, high + margin)

    def dots(which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
        chosen = some[which[some]]
        return scale.dots(run.end[chosen], values[chosen])

    middle = round((low + high) / 2, 2)
    return StretchedChart(
        "residual response of single windows over time, with the mean of the queue",
        (
            Layer("dots quiet", dots(~accepted), "rejected window"),
            Layer("dots used", dots(accepted), "window used for adaptation"),
            Layer("line", scale.line(run.end[some], np.asarray(mean, dtype=np.float64)[some]), "mean of the queue"),
        ),
        scale.ticks(sorted({round(low, 2), middle, round(high, 2)})),
    )


def _accepted_chart(run: ApproachRun, seconds: float) -> StretchedChart:
    """Return the share of windows that are used for adaptation, and of right ones, over time."""
    scale = Scale(seconds, *SHARE_RANGE)
    return StretchedChart(
        "share of windows used for adaptation, and of windows diagnosed correctly, over time",
        (
            _mean("line used", "used for adaptation", run.end, np.asarray(run.trace.accepted), seconds),
            _mean("line quiet", "diagnosed correctly", run.end, run.trace.correct, seconds),
        ),
        scale.ticks((0.0, 0.5, 1.0)),
    )


def _gate_text(run: ApproachRun) -> str:
    found = score(run.trace)
    rate = found.acceptance_rate or 0.0
    text = f"It used {rate:.0%} of the windows for adaptation"
    if found.accepted_label_accuracy is None:
        return f"{text}."
    text += f"; its labels were right in {found.accepted_label_accuracy:.0%} of those"
    if found.rejected_label_accuracy is None:
        return f"{text}."
    return f"{text}, and in {found.rejected_label_accuracy:.0%} of the rejected ones."


def _trust_chart(run: ApproachRun, seconds: float) -> StretchedChart:
    """Return how probable the model thinks that it is right, and how often it is, over time."""
    scale = Scale(seconds, *SHARE_RANGE)
    ready = run.ready
    return StretchedChart(
        "estimated probability that single decisions are right, and the share of right ones, over time",
        (
            _mean("line used", "estimated without labels", run.end[ready], run.chance[ready], seconds),
            _mean("line quiet", "actually right", run.end[ready], run.trace.correct[ready], seconds),
        ),
        scale.ticks((0.0, 0.5, 1.0)),
    )


def _mean(kind: str, name: str, time: DoubleArray, values: np.ndarray[Any, np.dtype[Any]], seconds: float) -> Layer:
    """Return the mean of shares over time as a line."""
    middles = (np.arange(INTERVALS) + 0.5) * seconds / INTERVALS
    means = mean_per_interval(time, values, seconds, INTERVALS)
    return Layer(kind, Scale(seconds, *SHARE_RANGE).line(middles, means), name)
