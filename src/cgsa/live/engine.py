"""One loop for all: benchmark, demo and live watch drive a method through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from cgsa.data.windows import Windows
from cgsa.decide.decision import Decision
from cgsa.events import Diagnosis
from cgsa.live.ledger import Bookkeeper
from cgsa.metrics.accuracy import IntArray
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
    ledger: Bookkeeper | None = None,
) -> StreamTrace:
    """Drive the method over a labelled stream and return what it said, with the truth beside it.

    ``report`` is called after every batch with the windows done and in all;
    ``ledger`` is told of every window, but for the truth.
    """
    outputs: list[StepOutput] = []
    for where, output in drive(method, windows, batch_size):
        outputs.append(output)
        if ledger:
            ledger.add(output, time=_begins(windows, where), source="stream")
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
        conditions=None if windows.conditions is None else windows.conditions.double().cpu().numpy(),
    )


def decide(trace: StreamTrace, decision: Decision) -> tuple[IntArray, IntArray]:
    """Return what is decided along a recorded stream: for every window the state of the verdict and of the alarm.

    A decision looks back only, so afterwards it is the same as live.
    """
    verdicts, alarms = [], []
    for begin in range(0, len(trace.label), trace.batch_size):
        where = slice(begin, begin + trace.batch_size)
        evidence = {name: torch.from_numpy(values[where]) for name, values in trace.evidence.items()}
        decided = decision.step(torch.from_numpy(trace.probabilities[where]), evidence)
        verdicts.append(decided.state)
        alarms.append(decided.alarm_state)
    return torch.cat(verdicts).cpu().numpy(), torch.cat(alarms).cpu().numpy()


def diagnose(
    method: OnlineMethod,
    windows: Windows,
    *,
    source: str,
    batch_size: int,
    ledger: Bookkeeper | None = None,
    decision: Decision | None = None,
) -> Iterator[Diagnosis]:
    """Drive the method over one unlabelled recording and tell what it sees, batch by batch.

    ``ledger`` is told of every window; ``decision`` joins them over time.
    """
    classes = method.bundle.manifest.classes
    for number, (where, output) in enumerate(drive(method, windows, batch_size)):
        if ledger:
            ledger.add(output, time=_begins(windows, where), source=source)
        state, alarm = _decided(decision, output)
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
            state=state,
            alarm=alarm,
        )


def _decided(decision: Decision | None, output: StepOutput) -> tuple[str | None, str | None]:
    """Return the joined state at the end of a batch, and the fault that an alarm tells of."""
    if decision is None:
        return None, None
    decided = decision.step(output.probabilities, output.evidence)
    told = int(decided.alarm_state[-1])
    return decision.states[int(decided.state[-1])], decision.states[told] if told else None


def _begins(windows: Windows, where: slice) -> npt.NDArray[np.float64]:
    """Return the second at which each window begins."""
    return np.asarray(windows.starts[where].cpu().numpy() / windows.sample_rate, dtype=np.float64)
