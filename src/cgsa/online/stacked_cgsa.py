"""CGSA for one machine whose student takes its steps together with those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import StepOutput
from cgsa.online.cgsa import Cgsa


class SharedStudents(Protocol):
    """The students of several machines."""

    def restart(self, machine: str) -> None:
        """Give a machine a new student; it joins if it is new itself."""

    def step(self, machine: str, x: Tensor, *, learn: bool) -> StepOutput:
        """Take a step of one machine, as soon as the others are ready for theirs."""

    def state_dict(self, machine: str) -> dict[str, Tensor]:
        """Return the state of a machine, as Cgsa would."""

    def load_state_dict(self, machine: str, state: Mapping[str, Tensor]) -> None:
        """Let a machine resume from a state."""


class StackedCgsa(Cgsa):
    """As :class:`~cgsa.online.cgsa.Cgsa`, whose states it reads and writes, with a student among others."""

    def __init__(
        self,
        bundle: ModelBundle,
        settings: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        students: SharedStudents,
        machine: str,
    ) -> None:
        self._students, self._machine = students, machine
        super().__init__(bundle, settings, seed=seed, device=device)

    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student."""
        return self._students.step(self._machine, x, learn=False).probabilities

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue, as copies."""
        return self._students.state_dict(self._machine)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state of any engine."""
        self._students.load_state_dict(self._machine, state)

    def _reset_student(self) -> None:
        self._students.restart(self._machine)

    def _step(self, x: Tensor) -> StepOutput:
        return self._students.step(self._machine, x, learn=True)

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self._students.step(self._machine, x, learn=False)
