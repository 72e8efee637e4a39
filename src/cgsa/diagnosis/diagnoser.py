"""One loop for all: benchmark, demo and live watch drive a method through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch

from cgsa.data.windows import Windows
from cgsa.decide.decision import Decided, Decision
from cgsa.diagnosis.trust import FrozenModel, trust_of, with_trust
from cgsa.events import NO_DATA, Diagnosis
from cgsa.ledger.rows import LedgerRecorder
from cgsa.metrics.stream import StreamTrace
from cgsa.online.base import OnlineMethod, StepOutput


def drive(
    method: OnlineMethod, windows: Windows, batch_size: int, twin: FrozenModel | None = None
) -> Iterator[tuple[slice, StepOutput]]:
    """Let the method diagnose, then learn from, every batch of the stream in order; a twin says what it would say."""
    for where, x in windows.batches(batch_size):
        output = method.step(x)
        yield where, twin.beside(x, output) if twin else output


def record(
    method: OnlineMethod,
    windows: Windows,
    *,
    batch_size: int,
    report: Callable[[int, int], None] | None = None,
    ledger: LedgerRecorder | None = None,
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
        stage=windows.stages.cpu().numpy(),
        probabilities=torch.cat([output.probabilities for output in outputs]).cpu().numpy(),
        accepted=torch.cat(accepted).cpu().numpy() if accepted else None,
        evidence={
            name: torch.cat([output.evidence[name] for output in outputs]).cpu().numpy() for name in outputs[0].evidence
        },
        batch_size=batch_size,
        conditions=None if windows.conditions is None else windows.conditions.double().cpu().numpy(),
    )


def decide(trace: StreamTrace, decision: Decision) -> Decided:
    """Return what is decided along a recorded stream.

    A decision looks back only, so afterwards it is the same as live.
    """
    parts = []
    for begin in range(0, len(trace.label), trace.batch_size):
        where = slice(begin, begin + trace.batch_size)
        evidence = {name: torch.from_numpy(values[where]) for name, values in trace.evidence.items()}
        parts.append(decision.step(torch.from_numpy(trace.probabilities[where]), evidence))
    return Decided.joined(parts)


def diagnose(
    method: OnlineMethod,
    windows: Windows,
    *,
    source: str,
    batch_size: int,
    ledger: LedgerRecorder | None = None,
    decision: Decision | None = None,
    twin: FrozenModel | None = None,
) -> Iterator[Diagnosis]:
    """Drive the method over one unlabelled recording and tell what it sees, batch by batch.

    ``ledger`` is told of every window; ``decision`` joins them over time, and
    tells with ``twin`` how far to trust the method.
    """
    classes = method.bundle.manifest.classes
    for number, (where, said) in enumerate(drive(method, windows, batch_size, twin)):
        decided = decision.step(said.probabilities, said.evidence) if decision else None
        output = with_trust(said, decided, decision, method.bundle.manifest) if decision and decided else said
        if ledger:
            ledger.add(output, time=_begins(windows, where), source=source)
        first, last = int(windows.starts[where.start]), int(windows.starts[where.stop - 1])
        span = first / windows.sample_rate, (last + windows.spec.length) / windows.sample_rate
        yield tell(output, decided, decision, classes, batch=number, source=source, span=span)


def tell(
    output: StepOutput | None,
    decided: Decided | None,
    decision: Decision | None,
    classes: tuple[str, ...],
    *,
    batch: int,
    source: str,
    span: tuple[float, float],
    flagged: Mapping[str, int] | None = None,
) -> Diagnosis:
    """Return what was seen in a batch, from what was said and decided of its windows.

    Where no window is left that could be believed, nothing was said of any.
    """
    begin, end = span
    bad = flagged or {}
    if output is None:
        return Diagnosis(
            batch=batch,
            source=source,
            begin=begin,
            end=end,
            windows=sum(bad.values()),
            verdict=NO_DATA,
            probabilities={},
            accepted=None,
            deviation=None,
            state=NO_DATA,
            flagged=bad,
        )
    mean = output.probabilities.mean(dim=0).tolist()
    deviation = output.evidence.get("deviation")
    known = np.array([]) if deviation is None else deviation[~deviation.isnan()].cpu().numpy()
    return Diagnosis(
        batch=batch,
        source=source,
        begin=begin,
        end=end,
        windows=len(output.probabilities) + sum(bad.values()),
        verdict=classes[int(np.argmax(mean))],
        probabilities=dict(zip(classes, mean, strict=True)),
        accepted=None if output.accepted is None else int(output.accepted.sum()),
        deviation=float(known.mean()) if len(known) else None,
        **_told(decision, decided),
        trust=trust_of(output) if decided else None,
        flagged=bad,
    )


def _told(decision: Decision | None, decided: Decided | None) -> dict[str, str | None]:
    """Return the joined state at the end of a batch, and the fault that an alarm tells of."""
    if decision is None or decided is None:
        return {}
    alarm = int(decided.alarm_state[-1])
    return {
        "state": decision.states[int(decided.state[-1])],
        "alarm": decision.states[alarm] if alarm else None,
    }


def _begins(windows: Windows, where: slice) -> npt.NDArray[np.float64]:
    """Return the second at which each window begins."""
    return np.asarray(windows.starts[where].cpu().numpy() / windows.sample_rate, dtype=np.float64)
