from __future__ import annotations

import json

import numpy as np
import torch

from cgsa.diagnosis.diagnoser import diagnose, record
from cgsa.metrics.stream import score
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import FrozenSource
from tests.machines import CLASSES, RATE, SPEC, bundle, stream_windows


def test_record_keeps_the_truth_beside_what_was_said() -> None:
    windows = stream_windows("crack")
    calls: list[tuple[int, int]] = []
    trace = record(Cgsa(bundle()), windows, batch_size=100, report=lambda done, total: calls.append((done, total)))
    assert trace.probabilities.shape == (len(windows), 3)
    assert set(trace.evidence) == {"response", "queue_mean", "deviation", "confidence", "pseudo_label"}
    assert trace.accepted is not None
    assert len(trace.accepted) == len(windows)
    assert trace.label.tolist() == windows.labels.tolist()
    assert calls[-1] == (len(windows), len(windows))
    literal = Cgsa(bundle())
    first = literal.step(windows.gather(slice(0, 100)))
    np.testing.assert_array_equal(trace.probabilities[:100], first.probabilities.numpy())


def test_scores_of_a_recorded_stream() -> None:
    windows = stream_windows()
    trace = record(FrozenSource(bundle()), windows, batch_size=64)
    figures = score(trace)
    predicted = torch.tensor(trace.prediction)
    by_stage = [float((predicted == windows.labels)[windows.stages == n].double().mean()) for n in range(3)]
    np.testing.assert_allclose(figures.stage_accuracy, by_stage)
    assert figures.average_accuracy == np.mean(by_stage)
    assert figures.windows == len(windows)
    assert figures.batches == -(-len(windows) // 64)
    assert figures.acceptance_rate is None


def test_pseudo_labels_are_judged_by_acceptance() -> None:
    trace = record(Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5}), stream_windows(), batch_size=64)
    figures = score(trace)
    assert trace.accepted is not None
    right = trace.evidence["pseudo_label"] == trace.label
    assert figures.acceptance_rate == trace.accepted.mean()
    assert figures.accepted_label_accuracy == right[trace.accepted].mean()
    assert figures.rejected_label_accuracy == right[~trace.accepted].mean()


def test_nothing_accepted_is_unknown_not_a_number() -> None:
    figures = score(record(Cgsa(bundle(), {"queue": 10**6}), stream_windows(), batch_size=64))
    assert figures.acceptance_rate == 0.0
    assert figures.accepted_label_accuracy is None
    assert figures.rejected_label_accuracy is not None


def test_events_tell_time_and_verdict_of_every_batch() -> None:
    windows = stream_windows()
    events = list(diagnose(Cgsa(bundle()), windows, source="here", batch_size=100))
    assert sum(event.windows for event in events) == len(windows)
    assert events[0].begin == 0.0
    assert events[0].end == (99 * SPEC.step + SPEC.length) / RATE
    for event in events:
        assert event.verdict == max(event.probabilities, key=lambda name: event.probabilities[name])
        assert set(event.probabilities) == set(CLASSES)
        text = json.loads(event.to_json())
        assert (text["event"], text["version"], text["source"]) == ("diagnosis", 1, "here")


def test_a_frozen_model_never_learns_and_says_so() -> None:
    event = next(diagnose(FrozenSource(bundle()), stream_windows(), source="here", batch_size=100))
    assert event.accepted is None
    assert event.deviation is None
