"""One loop for all: benchmark, demo and live watch drive a method through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from cgsa.data.windows import Windows
from cgsa.events import Diagnosis
from cgsa.metrics.stream import StreamTrace
from cgsa.online.base import OnlineMethod, StepOutput


def drive(method: OnlineMethod, windows: Windows, batch_size: int) -> Iterator[tuple[slice, StepOutput]]:
    """Let the method diagnose, then learn from, every batch of the stream in order."""
    for where, x in windows.batches(batch_size):
        yield where, method.step(x)


def record(
    method: OnlineMethod,
    windows: Windows,
    *,
    batch_size: int,
    report: Callable[[int, int], None] | None = None,
) -> StreamTrace:
    """Drive the method over a labelled stream and return what it said, with the truth beside it.

    ``report`` is called after every batch with the windows done and in all.
    """
    outputs: list[StepOutput] = []
    for where, output in drive(method, windows, batch_size):
        outputs.append(output)
        if report:
            report(where.stop, len(windows))
    accepted = [output.accepted for output in outputs if output.accepted is not None]
    return StreamTrace(
        label=windows.labels.cpu().numpy(),
        stage=windows.parts.cpu().numpy(),
        probabilities=torch.cat([output.probabilities for output in outputs]).cpu().numpy(),
        accepted=torch.cat(accepted).cpu().numpy() if accepted else None,
        evidence={
            name: torch.cat([output.evidence[name] for output in outputs]).cpu().numpy() for name in outputs[0].evidence
        },
        batch_size=batch_size,
        condition=None if windows.conditions is None else windows.conditions.double().cpu().numpy(),
    )


def diagnose(method: OnlineMethod, windows: Windows, *, source: str, batch_size: int) -> Iterator[Diagnosis]:
    """Drive the method over one unlabelled recording and tell what it sees, batch by batch."""
    classes = method.bundle.manifest.classes
    for number, (where, output) in enumerate(drive(method, windows, batch_size)):
        mean = output.probabilities.mean(dim=0).tolist()
        first, last = int(windows.starts[where.start]), int(windows.starts[where.stop - 1])
        deviation = output.evidence.get("deviation")
        known = np.array([]) if deviation is None else deviation[~deviation.isnan()].cpu().numpy()
        yield Diagnosis(
            batch=number,
            source=source,
            begin=first / windows.sample_rate,
            end=(last + windows.spec.length) / windows.sample_rate,
            windows=where.stop - where.start,
            verdict=classes[int(np.argmax(mean))],
            probabilities=dict(zip(classes, mean, strict=True)),
            accepted=None if output.accepted is None else int(output.accepted.sum()),
            deviation=float(known.mean()) if len(known) else None,
        )
