"""Running a diagnosis over a labelled stream, for benchmarks and reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from cgsa.data.windows import Windows
from cgsa.decide.decision import Decision, DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.ledger.columns import Columns
from cgsa.metrics.stream import StreamTrace
from cgsa.online.base import StepOutput


def run_stream(
    diagnoser: Diagnoser,
    windows: Windows,
    *,
    batch_size: int,
    known_conditions: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    on_rows: Callable[[Columns], None] | None = None,
) -> StreamTrace:
    """Diagnose every batch of a labelled stream and return the result of each window beside its true label.

    ``on_progress`` receives the number of windows done and of all windows after
    every batch, ``on_rows`` its ledger rows. Neither sees a label. With ``known_conditions``, the method gets the
    operating conditions of the windows.
    """
    outputs: list[StepOutput] = []
    for where, x in windows.batches(batch_size):
        conditions = windows.conditions[where] if known_conditions and windows.conditions is not None else None
        batch = diagnoser.step(x, conditions=conditions)
        outputs.append(batch.output)
        if on_rows:
            time = np.asarray(windows.starts[where].cpu().numpy() / windows.sample_rate, dtype=np.float64)
            on_rows(diagnoser.rows(batch, first=where.start, time=time, source="stream"))
        if on_progress:
            on_progress(where.stop, len(windows))
    unjoined = [output.unjoined for output in outputs if output.unjoined is not None]
    accepted = [output.accepted for output in outputs if output.accepted is not None]
    return StreamTrace(
        label=windows.labels.cpu().numpy(),
        stage=windows.stages.cpu().numpy(),
        probabilities=torch.cat([output.probabilities for output in outputs]).cpu().numpy(),
        accepted=torch.cat(accepted).cpu().numpy() if accepted else None,
        evidence=_joined_evidence(outputs),
        batch_size=batch_size,
        conditions=None if windows.conditions is None else windows.conditions.double().cpu().numpy(),
        unjoined=torch.cat(unjoined).cpu().numpy() if unjoined else None,
    )


def decide_afterwards(trace: StreamTrace, decision: DecisionMaker) -> Decision:
    """Return the decisions along a finished stream.

    A decision depends on earlier windows only, so the result equals that of
    deciding batch by batch. The benchmark uses this to time a method on its own.
    """
    parts = []
    probabilities = trace.probabilities if trace.unjoined is None else trace.unjoined
    for begin in range(0, len(trace.label), trace.batch_size):
        where = slice(begin, begin + trace.batch_size)
        evidence = {name: torch.from_numpy(values[where]) for name, values in trace.evidence.items()}
        parts.append(decision.step(torch.from_numpy(probabilities[where]), evidence))
    return Decision.concatenate(parts)


def _joined_evidence(outputs: Sequence[StepOutput]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the evidence of all windows; NaN for those whose batch had none of that name."""
    names = dict.fromkeys(name for output in outputs for name in output.evidence)

    def column(name: str, output: StepOutput) -> torch.Tensor:
        found = output.evidence.get(name)
        return output.probabilities.new_full((len(output.probabilities),), torch.nan) if found is None else found

    return {name: torch.cat([column(name, output) for output in outputs]).cpu().numpy() for name in names}
