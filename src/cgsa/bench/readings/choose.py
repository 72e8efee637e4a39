"""The rule by which a reading becomes the profile ``paper``, written before any of its figures was known.

1. Only a reading whose every seed has finished and whose networks have the paper's parameter counts is eligible.
2. The reading for which most statements hold, counted over all seeds, is chosen.
3. Among equals, one that trains for the 200 epochs that the paper states precedes the others.
4. Among those that are left, the one whose CGSA gains most over its frozen model, in the mean over the seeds.

The profile takes the settings of the reading with its budget: epochs, step and assemblies belong to what was scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cgsa.bench.readings.grid import Reading, ReadingGrid
from cgsa.bench.readings.statements import STATEMENTS, SeedResult
from cgsa.data.scenario import Scenario
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.mlp import DiagnosisNet, count_parameters
from cgsa.profile import Profile

NETWORK_PARAMETERS = 6_965_316
"""F and G together: the only stack that the forward volumes of table V fit."""
MEAN_BRANCH = (40_868, 41_867)
"""Fewest and most parameters of the mean branch of D that round to the volume of CGSA in table V."""
STATED_EPOCHS = 200
"""Epochs of the offline stage (paper, section III-A3)."""


@dataclass(frozen=True)
class ScoredReading:
    """A reading with the results of its seeds."""

    reading: Reading
    profile: Profile
    fits_counts: bool
    """Whether its networks have the paper's numbers of parameters."""
    seeds: Mapping[int, SeedResult]

    @property
    def holds(self) -> tuple[int, ...]:
        """In how many seeds each statement holds."""
        return tuple(sum(one.holds(result) for result in self.seeds.values()) for one in STATEMENTS)

    @property
    def gain(self) -> float:
        """Mean gain of CGSA over its frozen model; NaN without a result."""
        return float(np.mean([result.gain for result in self.seeds.values()])) if self.seeds else float("nan")


def choose_reading(scored: Sequence[ScoredReading], trials: int) -> ScoredReading | None:
    """Return the reading that becomes the profile, by the rule above; None if none is eligible."""
    eligible = [one for one in scored if one.fits_counts and len(one.seeds) == trials]
    return max(eligible, key=_rank, default=None)


def _rank(one: ScoredReading) -> tuple[int, bool, float]:
    return sum(one.holds), one.profile.train.epochs == STATED_EPOCHS, one.gain


def fits_counts(profile: Profile, scenario: Scenario) -> bool:
    """Return whether the networks of a profile have the numbers of parameters that the paper's table V implies."""
    # The meta device allocates nothing.
    with torch.device("meta"):
        shape = (len(scenario.channels), profile.window.length, len(scenario.classes))
        network = DiagnosisNet(profile.network, *shape)
        branch = ConditionDiscriminator(network.feature_width, profile.train.discriminator).mean
    low, high = MEAN_BRANCH
    return count_parameters(network) == NETWORK_PARAMETERS and low <= count_parameters(branch) <= high


def score_reading(grid: ReadingGrid, reading: Reading, seeds: Mapping[int, SeedResult]) -> ScoredReading:
    """Return a reading with what is known of it."""
    profile = grid.profile_of(reading.settings)
    return ScoredReading(reading, profile, fits_counts(profile, Scenario.load(grid.scenario)), seeds)
