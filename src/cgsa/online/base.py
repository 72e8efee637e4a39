"""Base class of online methods: a method diagnoses a batch first, then learns from it.

Results are scored on what the user saw, so the probabilities of a step always
come from before its update. No label ever reaches a method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

import torch
from torch import Tensor

from cgsa.config import bind
from cgsa.data.windows import Windows, to_device, underlying_samples
from cgsa.errors import ConfigError, DataError
from cgsa.events import ChangeReport, CommissioningStatus
from cgsa.nn.bundle import Manifest, ModelBundle


@dataclass(frozen=True)
class MethodConfig:
    """Settings of a method; each method has its own subclass."""

    def check(self, *names: str, valid: bool, expected: str) -> None:
        """Raise an error that gives the values of the named settings, unless they are valid."""
        if valid:
            return
        values = ((name, getattr(self, name)) for name in names)
        given = (f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)
        raise ConfigError(f"{', '.join(given)}; expected {expected}")


@dataclass(frozen=True, eq=False)
class StepOutput:
    """Output of a method for a batch of windows."""

    probabilities: Tensor
    """Class probabilities from before the update, (windows, classes)."""
    accepted: Tensor | None = None
    """Which windows were used for adaptation; None if the method never adapts."""
    evidence: Mapping[str, Tensor] = field(default_factory=dict)
    """Named values, one number per window, such as ``response``, ``deviation``, ``confidence``, ``pseudo_label``."""
    unjoined: Tensor | None = None
    """Class probabilities from each window alone, (windows, classes), if ``probabilities`` join windows over time."""

    @property
    def for_decisions(self) -> Tensor:
        """Class probabilities that decisions join over time; evidence must not count twice."""
        return self.probabilities if self.unjoined is None else self.unjoined


def check_shape(x: Tensor, model: Manifest, where: str = "") -> None:
    """Refuse a batch whose windows do not fit the model; the error message starts with ``where``."""
    expected = (len(model.channels), model.window.length)
    if x.ndim != 3 or tuple(x.shape[1:]) != expected or len(x) == 0:
        raise DataError(f"{where}batch of shape {tuple(x.shape)}; expected (windows, {expected[0]}, {expected[1]})")


class OnlineMethod(ABC):
    """Base of the online methods.

    Parameters
    ----------
    bundle
        The source model; it is copied and never changed.
    settings
        Settings that differ from the defaults of the method.
    source
        Labelled training windows, for methods that need ``source_data``; others never see them.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    """One line for lists of methods."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """What the method needs beyond a network: ``ensemble``, ``healthy_only``, ``discriminator``,
    ``reference``, ``calibration``, ``source_data``."""
    source_labels: ClassVar[str | None] = None
    """Name of the evidence with the labels of the frozen source model; None if the method gives none."""
    uses_conditions: ClassVar[bool] = False
    """Whether known operating conditions change the diagnosis."""
    interval: tuple[float, float] | None = None
    """Begin and end of the next batch, in seconds of the stream; None if there is no clock."""
    known_conditions: Tensor | None = None
    """Conditions of the windows of this batch, (windows, conditions), NaN where unknown; None if none is known."""

    def __init__(
        self,
        bundle: ModelBundle,
        settings: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        source: Windows | None = None,
    ) -> None:
        if "ensemble" in self.needs:
            bundle.require_ensemble()
        if "healthy_only" in self.needs:
            bundle.require_change()
        if "discriminator" in self.needs:
            bundle.require_discriminator()
        if "reference" in self.needs:
            bundle.require_reference()
        if "calibration" in self.needs:
            bundle.require_known()
        self.bundle = bundle
        self._source_windows = source if "source_data" in self.needs else None
        if "source_data" in self.needs:
            self.require_source()
        self.config: Any = bind(self.Config, settings or {}, f"method {type(self).__name__}")
        self.seed = seed
        self.device = torch.device(device)
        self.reset()

    def step(self, x: Tensor, *, learn: bool = True, conditions: Tensor | None = None) -> StepOutput:
        """Diagnose raw windows (windows, channels, length), then learn from them.

        With ``learn=False`` the diagnosis is the same, but the method stays unchanged. ``conditions`` are those of the
        windows, (windows, conditions), in the order of the manifest and NaN where unknown; a method that does not use
        them ignores them. Unusable windows raise before the method changes.
        """
        x = self._checked(x)
        self.known_conditions = self._checked_conditions(conditions, len(x)) if self.uses_conditions else None
        return self._step(x) if learn else self._step_without_learning(x)

    @property
    def commissioning(self) -> CommissioningStatus | None:
        """How far the commissioning of the machine is; None if the method needs none."""
        return None

    @property
    def change(self) -> ChangeReport | None:
        """How far the machine is from its healthy state; None if the method does not measure it."""
        return None

    def require_source(self) -> Windows:
        """Return the training windows of the source model."""
        if self._source_windows is None:
            raise ConfigError(f"{type(self).__name__} needs the training windows of the source model; pass source=")
        return self._source_windows

    def _checked(self, x: Tensor) -> Tensor:
        """Return windows on the device, or raise if they are unusable."""
        check_shape(x, self.bundle.manifest)
        shared = underlying_samples(x)
        # A sum is fast, and not finite if any sample is not. But it may overflow, so then each sample is checked.
        if not isfinite(float((x if shared is None else shared[0]).sum())) and not bool(torch.isfinite(x).all()):
            bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).sum())
            raise DataError(f"{bad} of {len(x)} windows hold NaN or infinity; leave them out of the stream")
        return to_device(x, self.device)

    def _checked_conditions(self, conditions: Tensor | None, windows: int) -> Tensor | None:
        """Return conditions on the device; None if nothing of them is known."""
        if conditions is None or bool(conditions.isnan().all()):
            return None
        expected = (windows, len(self.bundle.manifest.conditions))
        if tuple(conditions.shape) != expected:
            raise DataError(f"conditions of shape {tuple(conditions.shape)}; expected {expected}")
        return conditions.to(self.device, torch.float64)

    @abstractmethod
    def reset(self) -> None:
        """Return to the source model."""

    @abstractmethod
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities of the current model; changes nothing."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""

    @abstractmethod
    def _step(self, x: Tensor) -> StepOutput:
        """Diagnose, then learn; ``x`` is checked and on the device."""

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        """Diagnose only; a method that gives evidence for a decision overrides this to give it here, too."""
        return StepOutput(self.predict(x), torch.zeros(len(x), dtype=torch.bool, device=self.device))
