"""The fast engines on a CPU: backward pass written out, large first layers through Fourier transforms."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.engines.base import EngineBatch, SourceModel, SourceOutput
from cgsa.engines.first_layer import BatchInputs, FirstLayer, can_slide, first_layer
from cgsa.engines.layer_chain import LayerChain
from cgsa.engines.plain import PlainBatch, PlainEngine
from cgsa.engines.precision import matmul_precision


class ChainEngine(PlainEngine):
    """The student as a :class:`~cgsa.engines.layer_chain.LayerChain`.

    With ``mixed``, gradients of weights are computed in bfloat16.
    """

    def __init__(self, source: SourceModel, lr: float, capacity: int, *, mixed: bool) -> None:
        super().__init__(source, lr, capacity)
        self.chain = LayerChain(self.student, self._make_first(), mixed=mixed)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student."""
        with matmul_precision("highest", x.device):
            first = self.chain.first.forward(BatchInputs(self.source.network, x))
            return torch.softmax(self.chain.forward(first), dim=1)

    def _batch(self, x: Tensor) -> EngineBatch:
        return _ChainBatch(self, x)

    def _make_first(self) -> FirstLayer:
        layers = first_layer(self.student), first_layer(self.source.network)
        if not can_slide(self.source.network, self.source.window):
            return FirstLayer(*layers)
        # Loading its compiler takes a second, for which other engines should not wait.
        from cgsa.engines.sliding_layer import SlidingFirstLayer  # noqa: PLC0415

        return SlidingFirstLayer(*layers)


class _ChainBatch(PlainBatch):
    """One batch, whose first layer is computed for both networks at once."""

    def __init__(self, engine: ChainEngine, x: Tensor) -> None:
        self._engine: ChainEngine = engine
        self._batch = BatchInputs(engine.source.network, x)
        self._student_first, self._source_first = engine.chain.first.forward_both(self._batch)

    def student(self) -> Tensor:
        self._scores = self._engine.chain.forward(self._student_first)
        return torch.softmax(self._scores, dim=1)

    @torch.no_grad()
    def source(self) -> SourceOutput:
        return self._source_output(self._engine.source.network.F[1:](self._source_first))

    def adapt(self, accepted: Tensor, pseudo_label: Tensor) -> None:
        if not bool(accepted.any()):
            return
        scores = self._scores.requires_grad_()
        loss = cross_entropy(scores[accepted], pseudo_label[accepted])
        gradient = torch.autograd.grad(loss, scores)[0]
        self._engine.chain.learn(self._engine.adam, self._batch, gradient, accepted)
