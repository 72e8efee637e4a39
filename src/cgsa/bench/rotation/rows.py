"""The rows of a fold: what a model achieves on every stream and fault."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from cgsa.bench.records import Row
from cgsa.bench.rotation.folds import RotationFold, RotationStream
from cgsa.bench.rotation.learners import FittedModel, Learner
from cgsa.data.levels import quantity_name
from cgsa.data.scenario import Library, check_no_leak
from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.labelled import decide_afterwards
from cgsa.diagnosis.trust import chances
from cgsa.metrics.accuracy import average_accuracy, stage_accuracy
from cgsa.metrics.stream import StreamTrace, score_decisions
from cgsa.nn.assessment import BEYOND, OTHER_COMBINATION, OTHER_SPECIMEN, Assessment, Estimate
from cgsa.offline.references import HEALTHY

LEFT_OUT_STAGES = ("C1", "C2")
"""Stages at the condition, or of the specimen, that is left out."""


def fold_rows(fold: RotationFold, learner: Learner, library: Library, seed: int) -> Iterator[Row]:
    """Train a model on a fold and yield one row per stream, fault and entry."""
    started = time.perf_counter()
    model = learner.fit(fold, library, seed)
    seconds = time.perf_counter() - started
    calibration = model.manifest.calibration
    common = {
        "set": fold.scenario.name,
        "kind": fold.kind,
        "left_out": fold.left_out,
        "learner": learner.name,
        "seed": seed,
        "held_out_accuracy": None if calibration is None else calibration.held_out_accuracy,
        **_expected(fold, model.manifest.assessment),
        "training_seconds": round(seconds, 3),
    }
    for stream in fold.streams:
        for fault in fold.scenario.faults:
            for row in _stream_rows(fold, stream, fault, model=model, library=library, decide=learner.profile.decide):
                yield {**common, **row}


def _stream_rows(
    fold: RotationFold,
    stream: RotationStream,
    fault: str,
    *,
    model: FittedModel,
    library: Library,
    decide: FilterConfig,
) -> Iterator[Row]:
    segments = fold.scenario_of(stream).stream_segments(library, fault, specimen=stream.specimen)
    check_no_leak(model.trained_on, [segment.recording.interval for segment in segments])
    for entry, trace in model.run(segments):
        yield {
            "condition": stream.condition,
            "specimen": stream.specimen,
            "variant": stream.variant,
            "fault": fault,
            "entry": entry,
            **_scores(trace, model, decide, [stage.name in LEFT_OUT_STAGES for stage in stream.stages]),
        }


def _expected(fold: RotationFold, assessment: Assessment | None) -> Row:
    """Return the accuracy that a model expects where it is now used."""
    estimate = None if assessment is None else _estimate(fold, assessment)
    return {
        "expected_accuracy": None if estimate is None else estimate.accuracy,
        "expected_verdict_accuracy": None if estimate is None else estimate.verdict_accuracy,
    }


def _estimate(fold: RotationFold, assessment: Assessment) -> Estimate | None:
    estimates = assessment.estimates
    if fold.kind == "condition":
        between = estimates.get(OTHER_COMBINATION) or assessment.new_condition
        return (
            estimates.get(BEYOND, between) if OTHER_COMBINATION not in estimates and fold.beyond_training else between
        )
    if fold.kind == "level":
        names = [quantity_name(condition) for condition in fold.scenario.conditions]
        [place] = [place for place, name in enumerate(names) if fold.left_out.startswith(f"{name} ")]
        return assessment.new_level(place, beyond=fold.beyond_training)
    # A new specimen at a new condition is at least as far away as the worse of both.
    return assessment.leading if " and " in fold.kind else estimates.get(OTHER_SPECIMEN)


def _scores(trace: StreamTrace, model: FittedModel, decide: FilterConfig, left_out: Sequence[bool]) -> Row:
    """Return the figures of one stream: accuracies are means over the stages, or over those ``left_out``."""
    manifest = model.manifest
    decided = decide_afterwards(trace, DecisionMaker(decide, manifest))
    states = decided.state.numpy()
    score = score_decisions(
        trace,
        states,
        decided.alarm_state.numpy(),
        chances(torch.from_numpy(trace.probabilities), decided).numpy(),
        classes=len(manifest.classes),
        seconds_per_window=manifest.window.step / manifest.sample_rate,
    )
    faulty = trace.label != HEALTHY
    return {
        "accuracy": average_accuracy(trace.correct, trace.stage),
        "verdict_accuracy": score.verdict,
        "left_out_accuracy": float(stage_accuracy(trace.correct, trace.stage)[list(left_out)].mean()),
        "left_out_verdict_accuracy": float(np.asarray(score.stage_verdict)[list(left_out)].mean()),
        # Healthy or faulty, whatever the fault: all that a limit on the RMS can tell.
        "detection": average_accuracy(np.asarray((trace.prediction != HEALTHY) == faulty), trace.stage),
        "verdict_detection": average_accuracy(np.asarray((states != HEALTHY) == faulty), trace.stage),
        "delay": score.delay,
        "missed": score.delay is None,
        "false_alarms": score.false_alarms,
        "healthy_seconds": score.healthy_seconds,
        "windows": len(trace.label),
    }
