"""Profiles: named sets of settings for the whole way from windows to diagnosis.

``recommended`` is what we recommend for a real machine. ``paper`` is the paper to
the letter and equals the defaults of the dataclasses; ``quick`` is the same code on
less data. ``robust`` is a small network with a healthy reference. ``healthy_only``
needs no recordings of faults. A file lists only what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from cgsa.config import as_table, bind, builtin_files, overlay, read_named
from cgsa.data.windows import WindowSpec
from cgsa.decide.filter import FilterConfig
from cgsa.errors import ConfigError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline.config import TrainConfig
from cgsa.offline.portfolio import PortfolioConfig

REMEMBERED = "profile"
"""Entry of the record of a training that holds its profile."""


@dataclass(frozen=True)
class StreamConfig:
    """Settings of the online stage that all methods share."""

    batch_size: int = 256
    """B_on (paper, section III-A3)."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"batch_size {self.batch_size}; expected at least 1")


@dataclass(frozen=True)
class Profile:
    """All settings; objectives and methods have tables of their own under their names."""

    default_objective: str = "cal"
    """How to train where nothing else is asked for."""
    default_method: str = "cgsa"
    """How to watch where nothing else is asked for."""
    window: WindowSpec = field(default_factory=WindowSpec)
    """Windows of the online stream; training cuts its own step."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    ensemble: PortfolioConfig = field(default_factory=PortfolioConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    decide: FilterConfig = field(default_factory=FilterConfig)
    objective: Mapping[str, object] = field(default_factory=dict)
    """Settings by objective, such as ``objective.cal.gamma``."""
    method: Mapping[str, object] = field(default_factory=dict)
    """Settings by method, such as ``method.cgsa.tau``."""

    @classmethod
    def load(cls, name_or_path: str | Path = "paper", changes: Mapping[str, object] | None = None) -> Profile:
        """Read a profile by name or from a TOML file, and lay ``changes`` over it."""
        base = read_named(name_or_path, builtin_profiles(), "profile")
        return bind(cls, overlay(base, changes or {}), f"profile {name_or_path}")

    def objective_settings(self, name: str) -> Mapping[str, object]:
        """Return what this profile changes about an objective."""
        return _table(self.objective, name, "objective")

    def method_settings(self, name: str) -> Mapping[str, object]:
        """Return what this profile changes about a method."""
        return _table(self.method, name, "method")


def profile_of(manifest: Manifest) -> str:
    """Return the name of the profile that suits a model: the one that it was trained under, unless it was changed."""
    if manifest.ensemble is not None:
        return "recommended"
    if manifest.change is not None:
        return "healthy_only"
    return "paper" if manifest.calibration is None else "robust"


def profile_for(bundle: ModelBundle, name: str | None = None, changes: Mapping[str, object] | None = None) -> Profile:
    """Return the profile to use a model with: the named one, or the one that it remembers from its training."""
    remembered = bundle.training.get(REMEMBERED)
    if name is None and isinstance(remembered, Mapping):
        return bind(Profile, overlay(remembered, changes or {}), "profile of the model")
    return Profile.load(name or profile_of(bundle.manifest), changes)


def remember_profile(bundle: ModelBundle, profile: Profile, objective: str) -> ModelBundle:
    """Return the bundle with the profile of its training, unless another objective than the profile's was trained."""
    if objective != profile.default_objective:
        return bundle
    return replace(bundle, training={**bundle.training, REMEMBERED: as_table(profile)})


def builtin_profiles() -> dict[str, Path]:
    """Return the profile files that come with cgsa, by name."""
    return builtin_files("profiles")


def _table(tables: Mapping[str, object], name: str, kind: str) -> Mapping[str, object]:
    found = tables.get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"{kind}.{name}: expected a table of settings, got {found!r}")
    return cast(Mapping[str, object], found)
