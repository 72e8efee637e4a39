"""Windows of a training, and what members that were trained without some of them say about those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from cgsa.nn.assessment import LATEST, LEVEL
from cgsa.nn.change import HealthyMetrics
from cgsa.offline.parts import Part

REFERENCE_SHARE = 0.5
"""How much of the difference between a machine's healthy reference and that of the training is taken off."""


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Features of some training windows, with what is known of each."""

    kinds: Sequence[Tensor]
    """(windows, features) for each kind of features."""
    labels: Tensor
    recordings: Tensor
    machines: Tensor
    conditions: Tensor
    """(windows, conditions)"""
    spans: Tensor
    """Begin and end of every window as shares of its recording, (windows, 2)."""
    means: Tensor
    """Mean of every channel, (windows, channels)."""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> TrainingFeatures:
        """Return some of the windows."""
        return TrainingFeatures(
            [one[index] for one in self.kinds],
            self.labels[index],
            self.recordings[index],
            self.machines[index],
            self.conditions[index],
            self.spans[index],
            self.means[index],
        )


@dataclass(frozen=True, eq=False)
class StartDistances:
    """Distances of held-out windows from a healthy start among them, as a training without them measures them."""

    metrics: HealthyMetrics
    rows: Tensor
    """What is compared of every window, (windows, features)."""

    def subset(self, mask: Tensor) -> StartDistances:
        """Return some of the windows."""
        return StartDistances(self.metrics, self.rows[mask])

    def from_first(self, count: int) -> Tensor:
        """Return the logarithm of the distance of every window from the mean of the first of them."""
        return self.metrics.log_distance(self.rows, self.rows[:count].mean(dim=0))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Output of members for windows that were held out of their training."""

    part: Part
    scores: Tensor
    """(windows, members, classes), without a reference of the machine."""
    shift: Tensor
    """(windows, members, classes): what the whole reference of the machine takes off; 0 without a reference."""
    healthy: Tensor
    """Scores of the mean healthy machine of their training, (members, classes)."""
    index: Tensor
    """Which of the training windows these are."""
    windows: TrainingFeatures
    """What is known of them, without their features."""
    starts: StartDistances
    """Their distances from a healthy start of the machine."""

    @property
    def labels(self) -> Tensor:
        """Class of every window."""
        return self.windows.labels

    @property
    def recordings(self) -> Tensor:
        """Recording of every window."""
        return self.windows.recordings

    @property
    def weighs(self) -> bool:
        """Whether this part predicts the accuracy of members elsewhere.

        The latest quarter is too close to the rest, and a model of one level says little about a model of two.
        """
        return self.part.kind != LATEST and not (self.part.kind == LEVEL and self.part.one_of_two)

    def subset(self, mask: Tensor) -> HeldOut:
        """Return some of the windows."""
        return HeldOut(
            self.part,
            self.scores[mask],
            self.shift[mask],
            self.healthy,
            self.index[mask],
            self.windows.subset(mask),
            self.starts.subset(mask),
        )

    def with_reference(self, share: float = REFERENCE_SHARE) -> Tensor:
        """Return the scores with a share of the reference."""
        return self.scores - share * self.shift
