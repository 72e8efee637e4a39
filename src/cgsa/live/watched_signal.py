"""The diagnosis of a machine's signal as a watch needs it, wherever it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from cgsa.data.recording import FloatArray
from cgsa.events import CommissioningStatus, Operation
from cgsa.live.commands import Command
from cgsa.live.commissioning import execute_commissioning
from cgsa.live.labels import learn_label
from cgsa.live.signal_diagnoser import DiagnosedBatch, DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle


class WatchedSignal(Protocol):
    """The diagnosis of one machine's signal, in this process or in another one."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that a saved state depends on."""

    @property
    def now(self) -> float:
        """Time of the last sample in seconds."""

    @property
    def holds_windows(self) -> bool:
        """Whether whole windows wait for the rest of their batch."""

    @property
    def operation(self) -> Operation | None:
        """Whether the machine runs; None if that is unknown."""

    @property
    def commissioning(self) -> CommissioningStatus | None:
        """How far the commissioning is; None if the method has none."""

    def count_from(self, batches: int, windows: int) -> None:
        """Number the next batch and window."""

    def start_at(self, time: float, *, paused: str | None = None) -> list[DiagnosedBatch]:
        """Start a new segment of signal; return the diagnosis of what was left of the last."""

    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement."""

    def add(
        self, samples: FloatArray, *, conditions: Mapping[str, FloatArray | float] | None, paused: str | None
    ) -> list[DiagnosedBatch]:
        """Add the next samples; return the diagnosis of every batch that they complete."""

    def commission(self, command: Command) -> str:
        """Carry out a command about the commissioning, and return what was done."""

    def learn_label(self, state: str, begin: float, end: float) -> str | None:
        """Hand a labelled interval to the method, and return what came of it."""

    def reset(self) -> None:
        """Return to the model as it was trained."""

    def roll_back(self, state: Mapping[str, Tensor]) -> None:
        """Return to the model of an earlier state."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next diagnosis depends on, as copies."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""


class SignalFactory(Protocol):
    """Makes the diagnosis of a machine from its model, its settings and its name."""

    def __call__(self, bundle: ModelBundle, config: DiagnosisConfig, *, source: str) -> WatchedSignal:
        """Return the diagnosis."""


class LocalSignal(SignalDiagnoser):
    """The diagnosis in this process."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.method.device

    @property
    def operation(self) -> Operation | None:
        """Whether the machine runs; None if that is unknown."""
        return self.standstill.operation

    @property
    def commissioning(self) -> CommissioningStatus | None:
        """How far the commissioning is; None if the method has none."""
        return self.method.commissioning

    def count_from(self, batches: int, windows: int) -> None:
        """Number the next batch and window."""
        self.batches, self.windows = batches, windows

    def commission(self, command: Command) -> str:
        """Carry out a command about the commissioning, and return what was done."""
        text = execute_commissioning(self, command)
        if command.name == "commission":
            self.levels.observe_start()
        return text

    def learn_label(self, state: str, begin: float, end: float) -> str | None:
        """Hand a labelled interval to the method, and return what came of it."""
        return learn_label(self, state, begin, end)

    def reset(self) -> None:
        """Return to the model as it was trained."""
        self.method.reset()
        self.decision_maker.reset()
        self.levels.observe_start()

    def roll_back(self, state: Mapping[str, Tensor]) -> None:
        """Return to the model of an earlier state."""
        self.method.load_state_dict(state)
