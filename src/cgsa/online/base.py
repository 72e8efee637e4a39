"""What an online method is: it diagnoses a batch first, then learns from it.

The number that counts is what the user saw, so the probabilities of a step
always come from before its update. No label ever reaches a method.
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
from cgsa.nn.bundle import Manifest, ModelBundle


@dataclass(frozen=True)
class MethodConfig:
    """Settings of a method; each method has its own subclass."""


@dataclass(frozen=True, eq=False)
class StepOutput:
    """What a method says of a batch of windows."""

    probabilities: Tensor
    """Class probabilities from before the update, (windows, classes)."""
    accepted: Tensor | None = None
    """Which windows were learnt from; none where the method never learns."""
    evidence: Mapping[str, Tensor] = field(default_factory=dict)
    """One number a window each, such as ``response``, ``deviation``, ``confidence``, ``pseudo_label``."""


def check_shape(x: Tensor, model: Manifest, where: str = "") -> None:
    """Refuse a batch that is not of the windows of a model; ``where`` stands before what is wrong."""
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
        What differs from the defaults of the method.
    seed
        Where the random numbers of a method come from, if it draws any.
    device
        Where the method works.
    source
        Labelled training windows, for methods that need ``source_data``; others never see them.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    """One line for lists of methods."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """What the method asks for beyond a network: ``discriminator``, ``reference``, ``calibration``, ``source_data``."""

    source_labels: ClassVar[str | None] = None
    """Evidence that holds the labels of the frozen source model; none where the method tells none of it."""

    def __init__(
        self,
        bundle: ModelBundle,
        settings: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        source: Windows | None = None,
    ) -> None:
        if "discriminator" in self.needs:
            bundle.require_discriminator()
        if "reference" in self.needs:
            bundle.require_reference()
        if "calibration" in self.needs:
            bundle.require_known()
        if "source_data" in self.needs and source is None:
            raise ConfigError(f"{type(self).__name__} needs the training windows of the source model; pass source=")
        self.bundle = bundle
        self.source = source if "source_data" in self.needs else None
        self.config: Any = bind(self.Config, settings or {}, f"method {type(self).__name__}")
        self.seed = seed
        self.device = torch.device(device)
        self.reset()

    def step(self, x: Tensor, *, learn: bool = True) -> StepOutput:
        """Diagnose raw windows (windows, channels, length), then learn from them.

        With ``learn=False`` the diagnosis is the same, but the method stays unchanged. Unusable windows raise before
        the method changes.
        """
        x = self._checked(x)
        return self._step(x) if learn else self._step_without_learning(x)

    def _checked(self, x: Tensor) -> Tensor:
        """Return windows on the device, or say why they cannot be used."""
        check_shape(x, self.bundle.manifest)
        shared = underlying_samples(x)
        # One that is not finite makes the sum so; a sum can also overflow, so a look at each one decides.
        if not isfinite(float((x if shared is None else shared[0]).sum())) and not bool(torch.isfinite(x).all()):
            bad = int((~torch.isfinite(x)).flatten(1).any(dim=1).sum())
            raise DataError(f"{bad} of {len(x)} windows hold NaN or infinity; leave them out of the stream")
        return to_device(x, self.device)

    @abstractmethod
    def reset(self) -> None:
        """Go back to the source model."""

    @abstractmethod
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities of the model as it is now, changing nothing."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""

    @abstractmethod
    def _step(self, x: Tensor) -> StepOutput:
        """Diagnose and learn; ``x`` is checked and on the device."""

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        """Diagnose only; a method that gives evidence for a decision overrides this to give it here, too."""
        return StepOutput(self.predict(x), torch.zeros(len(x), dtype=torch.bool, device=self.device))
