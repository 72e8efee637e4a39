"""Decisions joined over time along the held-out parts of a training, as a stream would get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cgsa.data.windows import WindowSpec
from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.metrics.detection import detection_delay, false_alarms
from cgsa.nn.assessment import JoinedResult, add_counts
from cgsa.nn.bundle import Manifest
from cgsa.nn.own_start import CHANGE
from cgsa.offline.judging import JudgedPart, JudgedStream, count_states
from cgsa.offline.references import HEALTHY


def with_decisions(manifest: Manifest, judged: Sequence[JudgedPart], config: FilterConfig) -> Manifest:
    """Return the manifest with verdicts, delays and false alarms of every held-out part in its assessment."""
    if manifest.assessment is None:
        return manifest
    results = [replace(part.result, joined=join_part(part, manifest, config)) for part in judged]
    return replace(manifest, assessment=replace(manifest.assessment, results=tuple(results)))


def join_part(part: JudgedPart, manifest: Manifest, config: FilterConfig) -> JoinedResult | None:
    """Decide along every specimen, operating point and fault of a part; None if it has no healthy or no fault."""
    found = [one for stream in part.streams if stream.reference for one in _decide_faults(stream, manifest, config)]
    if not found:
        return None
    return JoinedResult(
        verdicts=add_counts(one.verdicts for one in found),
        delays=tuple(one.delay for one in found),
        false_alarms=sum(one.false_alarms for one in found),
        healthy_seconds=sum(one.healthy_seconds for one in found),
        fault_seconds=sum(one.fault_seconds for one in found) / len(found),
    )


@dataclass(frozen=True)
class _Decided:
    verdicts: tuple[tuple[int, ...], ...]
    delay: float | None
    false_alarms: int
    healthy_seconds: float
    fault_seconds: float


def _decide_faults(stream: JudgedStream, manifest: Manifest, config: FilterConfig) -> Iterator[_Decided]:
    """Yield the decisions about the healthy machine that then has a fault, for every fault of a stream."""
    # The windows of a training are farther apart than those of a stream, and each adds the evidence of its own step.
    spaced = replace(manifest, window=WindowSpec(manifest.window.length, stream.step))
    # The first window of a fault ends a whole window after the onset.
    seconds, whole = stream.step / manifest.sample_rate, manifest.window.length / manifest.sample_rate
    for fault in sorted(set(stream.labels.tolist()) - {HEALTHY}):
        chosen = (stream.labels == HEALTHY) | (stream.labels == fault)
        labels = stream.labels[chosen]
        maker = DecisionMaker(config, spaced)
        ready: Tensor = torch.arange(len(labels)) >= stream.reference
        evidence = {"ready": ready, "distance": stream.distance[chosen].cpu(), CHANGE: stream.change[chosen].cpu()}
        decided = maker.step(stream.probabilities[chosen].cpu(), evidence)
        truth, alarm = labels.cpu().numpy(), decided.alarm_state.numpy()
        delay = detection_delay(alarm, truth, seconds)
        healthy = int(np.count_nonzero(truth == HEALTHY))
        yield _Decided(
            count_states(labels.cpu(), decided.state.cpu(), classes=len(manifest.classes), many=len(maker.states)),
            None if delay is None else delay + whole,
            false_alarms(alarm, truth),
            healthy * seconds,
            (len(truth) - healthy - 1) * seconds + whole,
        )
