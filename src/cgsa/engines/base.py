"""What an engine is: the frozen source model, the student and the queue of Algorithm 1, computed in one particular way.

:class:`~cgsa.online.cgsa.Cgsa` states the algorithm over :class:`EngineBatch` and hands it to an engine, which runs it
as it stands or records it once and replays it. :class:`~cgsa.engines.plain.PlainEngine` is the reference;
:mod:`cgsa.engines.checks` compares all others with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from cgsa.data.windows import WindowSpec
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.state import add_prefix, check_state


@dataclass(frozen=True, eq=False)
class SourceModel:
    """The source model on the device of an engine, frozen."""

    network: DiagnosisNet
    """F_P and G_P."""
    discriminator: ConditionDiscriminator
    """D_P."""
    window: WindowSpec
    """How the windows of a stream are cut."""
    conditions: int
    """Number of operating conditions."""

    @classmethod
    def of(cls, bundle: ModelBundle, device: torch.device) -> SourceModel:
        """Return a frozen copy of a bundle's networks."""
        network, discriminator = deepcopy(bundle.network), deepcopy(bundle.require_discriminator())
        for module in (network, discriminator):
            module.to(device).eval().requires_grad_(requires_grad=False)
        return cls(network, discriminator, bundle.manifest.window, len(bundle.manifest.conditions))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.network.parameters()).device

    def copy_student(self) -> DiagnosisNet:
        """Return a student, F_S and G_S: a copy that can be trained. It stays in eval mode: dropout is for training."""
        return deepcopy(self.network).requires_grad_(requires_grad=True)

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raise BundleError if the state of a student lacks a tensor or belongs to a network of another shape."""
        expected = add_prefix("network.student", self.network.state_dict())
        check_state(state, expected, "method", also=("memory.queue", "generator"))


class ResponseQueue(NamedTuple):
    """Q, the last W residual responses of one machine, or of several in a stack."""

    responses: Tensor
    """(..., W, conditions), filled from the end."""
    filled: Tensor
    """How many of them count, (...)."""

    @classmethod
    def empty(cls, capacity: int, conditions: int, *stack: int, device: torch.device | str = "cpu") -> ResponseQueue:
        """Return queues for a stack of machines of this shape; without one, a queue for a single machine."""
        responses = torch.zeros(*stack, capacity, conditions, dtype=torch.float64, device=device)
        return cls(responses, torch.zeros(stack, dtype=torch.int64, device=device))

    def content(self) -> Tensor:
        """Return the responses of a single machine, oldest first, (filled, conditions)."""
        return self.responses[len(self.responses) - int(self.filled) :]

    def fill(self, content: Tensor) -> None:
        """Replace the responses of a single machine in place; if there are more than W, the last W."""
        kept = content[-len(self.responses) :]
        self.responses.zero_()
        self.responses[len(self.responses) - len(kept) :] = kept
        self.filled.fill_(len(kept))


class SourceOutput(NamedTuple):
    """What the frozen source model gives for each window."""

    pseudo_label: Tensor
    confidence: Tensor
    response: Tensor
    """Residual response, one column per condition."""


class EngineOutput(NamedTuple):
    """Everything that Algorithm 1 finds for a batch, one row per window."""

    probabilities: Tensor
    """Class probabilities of the student before its update, (windows, classes)."""
    source: SourceOutput
    accepted: Tensor
    """The reliable set, from which the student learned."""
    queue_mean: Tensor
    """(windows, conditions)"""
    deviation: Tensor


class EngineBatch(Protocol):
    """One batch in an engine. Tensors have a leading dimension of machines if the engine stacks several students."""

    @property
    def queue(self) -> ResponseQueue:
        """The queue before this batch."""

    def student(self) -> Tensor:
        """Return the class probabilities of the student, eq. (5)."""

    def in_parallel(self) -> AbstractContextManager[None]:
        """Open a context for work that does not depend on the student; an engine may do both at the same time."""

    def source(self) -> SourceOutput:
        """Return pseudo-labels, confidences and residual responses of the frozen source model, eqs. (6) to (8)."""

    def update_queue(self, queue: ResponseQueue) -> None:
        """Store the queue after this batch."""

    def adapt(self, accepted: Tensor, pseudo_label: Tensor) -> None:
        """Take one optimiser step on the accepted windows, eqs. (12) and (13); none if no window is accepted."""


class Algorithm(Protocol):
    """Algorithm 1 for one batch, over the operations of an engine."""

    def __call__(self, batch: EngineBatch, *, learn: bool) -> EngineOutput:
        """Diagnose the batch and, if ``learn``, update the queue and the student."""


class CgsaEngine(Protocol):
    """The student of one machine, with its optimiser and its queue."""

    def run(self, algorithm: Algorithm, x: Tensor, *, learn: bool) -> EngineOutput:
        """Apply the algorithm to a batch of raw windows, (windows, channels, length)."""

    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student; nothing changes."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue, as copies; all engines use the same names and shapes."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from the state of any engine."""
