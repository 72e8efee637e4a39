"""Settings of the offline stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from cgsa.errors import ConfigError
from cgsa.nn.condition import DiscriminatorConfig


@dataclass(frozen=True)
class TrainConfig:
    """Settings of the offline stage."""

    epochs: int = 200
    """Paper, section III-A3."""
    batch_size: int = 256
    """The paper states it for the online stage only."""
    step: int = 16
    """Samples from one training window to the next (paper, section III-A3)."""
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    reference_seconds: float = 0.5
    """Length of the healthy spans from which a network with a reference gets its training references."""
    calibrate: bool = False
    """Whether models are evaluated at conditions held out of their training (:mod:`cgsa.offline.calibration`)."""
    checkpoint_seconds: float = 30.0
    """Least time between two checkpoints, longer if saving is slow; 0 saves after every epoch."""

    def __post_init__(self) -> None:
        if min(self.epochs, self.step) < 1 or self.batch_size < 2:
            raise ConfigError(
                f"{self.epochs} epochs, batches of {self.batch_size}, step {self.step}; expected at least one epoch, "
                f"two windows per batch and a step of one"
            )
        if self.reference_seconds <= 0:
            raise ConfigError(f"reference_seconds {self.reference_seconds:g}; expected a positive number")
