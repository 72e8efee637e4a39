from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from cgsa.decide.decision import Decision, DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.metrics.stream import score
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.cgsa_joined import CgsaJoined
from cgsa.online.reference import Reference
from cgsa.online.source import FrozenSource
from tests.machines import bundle, stream_windows


def test_results_are_kept_beside_the_labels() -> None:
    windows = stream_windows("crack")
    calls: list[tuple[int, int]] = []
    trace = run_stream(
        Diagnoser(Cgsa(bundle())), windows, batch_size=100, on_progress=lambda done, total: calls.append((done, total))
    )
    assert trace.probabilities.shape == (len(windows), 3)
    assert set(trace.evidence) == {"response", "queue_mean", "deviation", "confidence", "pseudo_label"}
    assert trace.accepted is not None
    assert len(trace.accepted) == len(windows)
    assert trace.label.tolist() == windows.labels.tolist()
    assert calls[-1] == (len(windows), len(windows))
    literal = Cgsa(bundle())
    first = literal.step(windows.gather(slice(0, 100)))
    np.testing.assert_array_equal(trace.probabilities[:100], first.probabilities.numpy())


def test_scores_of_a_stream() -> None:
    windows = stream_windows()
    trace = run_stream(Diagnoser(FrozenSource(bundle())), windows, batch_size=64)
    figures = score(trace)
    predicted = torch.tensor(trace.prediction)
    by_stage = [float((predicted == windows.labels)[windows.stages == n].double().mean()) for n in range(3)]
    np.testing.assert_allclose(figures.stage_accuracy, by_stage)
    assert figures.average_accuracy == np.mean(by_stage)
    assert figures.windows == len(windows)
    assert figures.batches == -(-len(windows) // 64)
    assert figures.acceptance_rate is None


def test_pseudo_label_accuracy_by_acceptance() -> None:
    method = Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5})
    trace = run_stream(Diagnoser(method), stream_windows(), batch_size=64)
    figures = score(trace)
    assert trace.accepted is not None
    right = trace.evidence["pseudo_label"] == trace.label
    assert figures.acceptance_rate == trace.accepted.mean()
    assert figures.accepted_label_accuracy == right[trace.accepted].mean()
    assert figures.rejected_label_accuracy == right[~trace.accepted].mean()


def test_label_accuracy_is_none_if_nothing_was_accepted() -> None:
    figures = score(run_stream(Diagnoser(Cgsa(bundle(), {"queue": 10**6})), stream_windows(), batch_size=64))
    assert figures.acceptance_rate == 0.0
    assert figures.accepted_label_accuracy is None
    assert figures.rejected_label_accuracy is not None


class LateEvidence(FrozenSource):
    """Reports ``first`` for the first batch only and ``later`` for all others only."""

    batches = 0

    def _step(self, x: Tensor) -> StepOutput:
        self.batches += 1
        name = "first" if self.batches == 1 else "later"
        return replace(super()._step(x), evidence={name: torch.ones(len(x))})


def test_evidence_of_every_batch_is_kept() -> None:
    windows = stream_windows()
    trace = run_stream(Diagnoser(LateEvidence(bundle())), windows, batch_size=100)
    assert set(trace.evidence) == {"first", "later"}
    assert np.isnan(trace.evidence["later"][:100]).all()
    assert (trace.evidence["later"][100:] == 1).all()
    assert np.isnan(trace.evidence["first"][100:]).all()


@pytest.mark.parametrize(("method", "settings"), [(Reference, {}), (CgsaJoined, {"tau": 0.05})])
def test_deciding_afterwards_equals_deciding_batch_by_batch(
    method: type[OnlineMethod], settings: dict[str, object]
) -> None:
    source = bundle()
    decision = DecisionMaker(FilterConfig(), source.manifest)
    live = Diagnoser(method(source, settings), DecisionMaker(FilterConfig(), source.manifest))
    parts = [live.step(x).decision for _, x in stream_windows().batches(64)]
    trace = run_stream(Diagnoser(method(source, settings)), stream_windows(), batch_size=64)
    expected = Decision.concatenate([part for part in parts if part is not None])
    found = decide_afterwards(trace, decision)
    for name in ("window_probabilities", "posterior", "alarm_posterior", "alarm"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0)
