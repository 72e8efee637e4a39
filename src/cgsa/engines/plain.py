"""The reference engine: plain PyTorch with autograd. All other engines are checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.engines.base import Algorithm, EngineBatch, EngineOutput, ResponseQueue, SourceModel, SourceOutput
from cgsa.engines.precision import matmul_precision
from cgsa.nn.optim import adam_state, load_adam_state, make_adam, minimise
from cgsa.nn.state import add_prefix, select_prefix


class PlainEngine:
    """Algorithm 1 in single precision, one operation after the other.

    ``lr`` is eta, the learning rate of Adam; ``capacity`` is W, that of the queue.
    """

    def __init__(self, source: SourceModel, lr: float, capacity: int) -> None:
        self.source = source
        self.student = source.copy_student()
        self.adam = make_adam(self.student.parameters(), lr)
        self.queue = ResponseQueue.empty(capacity, source.conditions, device=source.device)

    def run(self, algorithm: Algorithm, x: Tensor, *, learn: bool) -> EngineOutput:
        """Apply the algorithm to a batch."""
        with matmul_precision("highest", x.device):
            return algorithm(self._batch(x), learn=learn)

    def _batch(self, x: Tensor) -> EngineBatch:
        return PlainBatch(self, x)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student."""
        with matmul_precision("highest", x.device):
            return torch.softmax(self.student(x), dim=1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue."""
        weights = {name: tensor.detach().clone() for name, tensor in self.student.state_dict().items()}
        return {
            **add_prefix("network.student", weights),
            **add_prefix("optimizer.student", adam_state(self.adam)),
            "memory.queue": self.queue.content().clone(),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from the state of any engine."""
        self.source.check_state(state)
        self.student.load_state_dict(select_prefix("network.student", state))
        load_adam_state(self.adam, select_prefix("optimizer.student", state))
        self.queue.fill(state["memory.queue"])


class PlainBatch:
    """One batch, as autograd sees it."""

    def __init__(self, engine: PlainEngine, x: Tensor) -> None:
        self._engine = engine
        # Front-ends do not learn, so both networks have the same inputs.
        self._inputs = engine.source.network.inputs(x)

    @property
    def queue(self) -> ResponseQueue:
        """The queue before this batch."""
        return self._engine.queue

    def student(self) -> Tensor:
        """Return the class probabilities of the student."""
        student = self._engine.student
        self._scores = student.classify(student.F(self._inputs))
        return torch.softmax(self._scores.detach(), dim=1)

    def in_parallel(self) -> AbstractContextManager[None]:
        """Do nothing in parallel."""
        return nullcontext()

    @torch.no_grad()
    def source(self) -> SourceOutput:
        """Return what the frozen source model gives."""
        return self._source_output(self._engine.source.network.F(self._inputs))

    def update_queue(self, queue: ResponseQueue) -> None:
        """Store the queue after this batch."""
        # A copy, which does not keep the responses of the whole batch in memory.
        self._engine.queue = ResponseQueue(queue.responses.clone(), queue.filled)

    def adapt(self, accepted: Tensor, pseudo_label: Tensor) -> None:
        """Take one step of Adam on the mean cross-entropy of the accepted windows."""
        if not bool(accepted.any()):
            return
        minimise(self._engine.adam, cross_entropy(self._scores[accepted], pseudo_label[accepted]))

    def _source_output(self, features: Tensor) -> SourceOutput:
        source = self._engine.source
        confidence, pseudo_label = torch.softmax(source.network.classify(features), dim=1).max(dim=1)
        return SourceOutput(pseudo_label, confidence, source.discriminator.response(features))
