"""Method and settings that suit a model where the caller names none."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile, profile_of

FROZEN, NEEDS_DISCRIMINATOR = "source", "cgsa"


def default_config(
    bundle: ModelBundle,
    *,
    method: str | None = None,
    profile: str | PathLike[str] | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> DiagnosisConfig:
    """Return method and settings that suit a model, except for those that are given."""
    chosen = Profile.load(profile_of(bundle.manifest) if profile is None else str(profile), settings)
    adapts = chosen.default_method != NEEDS_DISCRIMINATOR or bundle.manifest.discriminator is not None
    return DiagnosisConfig.from_profile(chosen, method or (chosen.default_method if adapts else FROZEN), seed=seed)
