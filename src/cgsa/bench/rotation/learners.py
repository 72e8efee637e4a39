"""Learners: each trains a model on the training part of a fold, and the model then runs on its streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cgsa.bench.rotation.folds import RotationFold
from cgsa.config import as_table, bind, overlay
from cgsa.data.recording import Interval
from cgsa.data.scenario import Library
from cgsa.data.windows import Segment, Windows
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.online import METHODS
from cgsa.profile import Profile
from cgsa.workflow import ENSEMBLE, run_method, segments_for, train, training_windows

FROZEN = "source"
"""The method that uses a model as it was trained."""
WITH_CONDITIONS = ", conditions known"
"""Ends the name of an entry whose method gets the operating conditions."""
LEAST_WINDOWS = 3
"""Windows that fit side by side into the shortest segment; longer windows are shortened."""


class FittedModel(ABC):
    """A model after its training."""

    manifest: Manifest
    """Classes, windows and calibration, by which single decisions are joined."""
    trained_on: Sequence[Interval]
    """Intervals of raw samples that it was trained on."""

    @abstractmethod
    def run(self, segments: Sequence[Segment]) -> Iterator[tuple[str, StreamTrace]]:
        """Yield the results for a stream, each with the name of its entry in the tables."""


class Learner(Protocol):
    """A way to train a model."""

    @property
    def name(self) -> str:
        """Name of the learner."""
        ...

    @property
    def profile(self) -> Profile:
        """Settings of the windows, and of how single decisions are joined."""
        ...

    def fit(self, fold: RotationFold, library: Library, seed: int) -> FittedModel:
        """Train a model on the training part of a fold."""
        ...


@dataclass(frozen=True)
class BundleLearner:
    """Trains a bundle under a profile, and runs one or more online methods from it."""

    name: str
    profile: Profile
    methods: Mapping[str, str]
    """Online methods by the name of their entry."""
    objective: str | None = None
    """None means the profile's."""
    device: str = "cpu"
    known_conditions: bool = False
    """Whether methods that use known operating conditions run a second time, with those of every window."""

    def fit(self, fold: RotationFold, library: Library, seed: int) -> FittedModel:
        """Train one bundle."""
        windows = training_windows(fold.scenario, self.profile, library, self.device, objective=self.objective)
        [bundle] = train(fold.scenario, self.profile, windows, objective=self.objective, seeds=[seed])
        return FittedBundle(
            bundle, self.profile, self.methods, seed, self.device, known_conditions=self.known_conditions
        )


class FittedBundle(FittedModel):
    """A bundle and the methods that start from it."""

    def __init__(
        self,
        bundle: ModelBundle,
        profile: Profile,
        methods: Mapping[str, str],
        seed: int,
        device: str,
        *,
        known_conditions: bool = False,
    ) -> None:
        self.manifest, self.trained_on = bundle.manifest, bundle.trained_on()
        self._bundle, self._profile, self._methods = bundle, profile, methods
        self._seed, self._device, self._known_conditions = seed, device, known_conditions

    def run(self, segments: Sequence[Segment]) -> Iterator[tuple[str, StreamTrace]]:
        """Run every method on the windows of the bundle."""
        names = [condition.name for condition in self.manifest.conditions]
        read = segments_for(self.manifest.objective, segments)
        windows = Windows(read, self.manifest.window, conditions=names, device=self._device)
        for entry, method in self._methods.items():
            yield entry, run_method(self._bundle, windows, method, self._profile, seed=self._seed)
            if self._known_conditions and METHODS[method].uses_conditions:
                trace = run_method(self._bundle, windows, method, self._profile, seed=self._seed, known_conditions=True)
                yield f"{entry}{WITH_CONDITIONS}", trace


def profile_learner(
    name: str, profile: Profile, device: str = "cpu", *, known_conditions: bool = False
) -> BundleLearner:
    """Return the learner of a profile: its default method, and the frozen model to compare it with."""
    methods = {name: profile.default_method, f"{name}, frozen": FROZEN}
    chosen = methods if profile.default_method != FROZEN else {name: FROZEN}
    return BundleLearner(name, profile, chosen, device=device, known_conditions=known_conditions)


def fitting_profile(profile: Profile, shortest: int, sample_rate: float) -> Profile:
    """Return a profile whose windows fit into segments of ``shortest`` samples.

    A slow sensor records few samples. Its windows become the longest power of two of which some fit side by side, with
    the same overlap as before, and a healthy span takes as many of them. An ensemble chooses its windows itself.
    """
    longest = shortest // LEAST_WINDOWS
    if profile.window.length <= longest or profile.default_objective == ENSEMBLE:
        return profile
    length = 1 << max(1, longest.bit_length() - 1)
    share = length / profile.window.length
    span = LEAST_WINDOWS * length / sample_rate
    changes: dict[str, object] = {
        "window": {"length": length, "step": max(1, round(share * profile.window.step))},
        "train": {"step": max(1, round(share * profile.train.step)), "reference_seconds": span},
        "method": {"reference": {"commission_seconds": span}},
    }
    return bind(Profile, overlay(as_table(profile), changes), "profile for short recordings")
