"""The engine of one machine on a GPU: a stack of one student, recorded as a CUDA graph. On a CPU it runs unrecorded."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from cgsa.data.windows import underlying_samples
from cgsa.engines.base import Algorithm, EngineOutput, SourceModel
from cgsa.engines.stacked_students import StackedStudents


class GraphEngine:
    """A stack of one student."""

    def __init__(self, source: SourceModel, lr: float, capacity: int) -> None:
        self._students = StackedStudents(source, lr, capacity)

    def run(self, algorithm: Algorithm, x: Tensor, *, learn: bool) -> EngineOutput:
        """Apply the algorithm to a batch."""
        return self._students.run(algorithm, *_as_stack(x), learn=learn).unpack(0)

    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student."""
        return self._students.predict(*_as_stack(x))[0]

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue."""
        return self._students.state_dict(0)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from the state of any engine."""
        self._students.load_state_dict(0, state)


def _as_stack(x: Tensor) -> tuple[Tensor, int]:
    """Return the samples that the windows of one machine share, with their step, or the windows and 0."""
    shared = underlying_samples(x)
    return (x[None], 0) if shared is None else (shared[0][None], shared[1])
