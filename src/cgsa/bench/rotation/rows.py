"""The rows of a fold: what a model achieves on every stream and fault."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch

from cgsa.bench.records import Row
from cgsa.bench.rotation.folds import RotationFold, RotationStream
from cgsa.bench.rotation.learners import FittedModel, Learner
from cgsa.data.scenario import Library, check_no_leak
from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.labelled import decide_afterwards
from cgsa.diagnosis.trust import chances
from cgsa.metrics.accuracy import average_accuracy
from cgsa.metrics.stream import StreamTrace, score_decisions
from cgsa.offline.references import HEALTHY


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
            **_scores(trace, model, decide),
        }


def _scores(trace: StreamTrace, model: FittedModel, decide: FilterConfig) -> Row:
    """Return the figures of one stream: accuracies are means over the stages."""
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
        # Healthy or faulty, whatever the fault: all that a limit on the RMS can tell.
        "detection": average_accuracy(np.asarray((trace.prediction != HEALTHY) == faulty), trace.stage),
        "verdict_detection": average_accuracy(np.asarray((states != HEALTHY) == faulty), trace.stage),
        "delay": score.delay,
        "missed": score.delay is None,
        "false_alarms": score.false_alarms,
        "healthy_seconds": score.healthy_seconds,
        "windows": len(trace.label),
    }
