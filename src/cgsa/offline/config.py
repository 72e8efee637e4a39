"""Settings of the offline stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cgsa.config import stored_if_given
from cgsa.data.scenario import Condition
from cgsa.errors import ConfigError
from cgsa.nn.condition import DiscriminatorConfig
from cgsa.offline.base import Views


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
    views: Views = field(default="contrast", metadata=stored_if_given())
    """Which objectives train on augmented views: those that contrast views, as SupCon does; ``every`` objective; or
    ``none``. The paper mentions no augmentation, neither for SupCon nor for its own training."""
    assemblies: int | None = field(default=None, metadata=stored_if_given())
    """Train on this many assemblies of the machine; None takes all that there are. The paper's data come from one rig
    each (section III), and it does not say whether that was assembled anew for every recording."""
    condition_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, metadata=stored_if_given())
    """T_min and T_max by condition; without an entry, the scenario's. The paper normalises by the minimum and maximum
    torque (section III-A3), and does not say whether the online conditions, up to 20 Nm, count among them."""
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
        if self.assemblies is not None and self.assemblies < 1:
            raise ConfigError(f"assemblies {self.assemblies}; expected at least one")
        if self.reference_seconds <= 0:
            raise ConfigError(f"reference_seconds {self.reference_seconds:g}; expected a positive number")

    def ranged(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """Return conditions with the ranges that map onto c in [0, 1]."""
        unknown = ", ".join(self.condition_ranges.keys() - {condition.name for condition in conditions})
        if unknown:
            known = ", ".join(condition.name for condition in conditions)
            raise ConfigError(f"condition_ranges of {unknown}; this machine has {known}")
        return tuple(
            replace(condition, minimum=low, maximum=high)
            for condition in conditions
            for low, high in [self.condition_ranges.get(condition.name, (condition.minimum, condition.maximum))]
        )
