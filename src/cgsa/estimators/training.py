"""Training for estimators: the profile's objective, or a small network where recordings are too short for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cgsa.data.recording import Recording
from cgsa.data.scenario import Condition
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.estimators.training_set import complete, conditions_of, generated_scenario, require_units
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline.config import TrainConfig
from cgsa.offline.portfolio import longest_frame
from cgsa.profile import Profile
from cgsa.workflow import ENSEMBLE, segments_for, train, training_spec

SHORT = "plain"
"""Objective where recordings are too short for averaged spectra."""
SHORT_STEPS = 240
"""Steps of its training."""
SHORT_BATCH = 64
SHORT_PROFILE = Profile(
    default_objective=SHORT,
    default_method="source",
    network=NetworkConfig(hidden=(64, 16), tap=16),
    train=TrainConfig(batch_size=SHORT_BATCH),
    objective={SHORT: {"lr": 3e-3, "weight_decay": 1e-3, "schedule": "one_cycle"}},
)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained bundle, and what its users should know of the training."""

    bundle: ModelBundle
    notes: tuple[str, ...]


def train_on(
    recordings: Sequence[Recording],
    labels: Sequence[int],
    machines: Sequence[int],
    classes: Sequence[str],
    profile: Profile,
    *,
    seed: int,
) -> Trained:
    """Train on whole recordings; ``labels`` are places in ``classes``, of which the first is healthy."""
    conditions = conditions_of(recordings)
    scenario = generated_scenario(recordings, classes, conditions)
    chosen, notes = fitting_settings(profile, recordings)
    objective = chosen.default_objective
    spec = training_spec([Segment(one, 0, 0) for one in recordings], chosen, objective)
    windows = windows_of(recordings, conditions, objective, spec=spec, labels=labels, machines=machines)
    # All have the same channels by now.
    require_units(recordings, recordings[0].units)
    [bundle] = train(scenario, chosen, windows, seeds=[seed])
    assessment = bundle.manifest.assessment
    if assessment is not None and assessment.leading is None:
        notes += ("nothing could be held out of so few recordings: its accuracy elsewhere is unknown",)
    return Trained(bundle, notes + bundle.manifest.notes)


def fitting_settings(profile: Profile, recordings: Sequence[Recording]) -> tuple[Profile, tuple[str, ...]]:
    """Return the settings with which recordings of this length can be trained on, with a note if they are others."""
    shortest = min(one.samples for one in recordings)
    frame = longest_frame(recordings[0].sample_rate)
    if profile.default_objective != ENSEMBLE or shortest >= frame:
        return profile, ()
    every = sum(WindowSpec(shortest, shortest).count(one.samples) for one in recordings)
    epochs = max(1, round(SHORT_STEPS / -(-every // SHORT_BATCH)))
    settings = replace(
        SHORT_PROFILE,
        window=WindowSpec(shortest, shortest),
        train=replace(SHORT_PROFILE.train, step=shortest, epochs=epochs),
    )
    note = (
        f"the shortest recording has {shortest} samples, and averaged spectra need {frame}: a small network was "
        f"trained on the samples themselves"
    )
    return settings, (note,)


def windows_of(
    recordings: Sequence[Recording],
    conditions: Sequence[Condition],
    objective: str,
    *,
    spec: WindowSpec,
    labels: Sequence[int] | None = None,
    machines: Sequence[int] | None = None,
) -> Windows:
    """Return the windows of whole recordings as a model with this objective reads them."""
    count = len(recordings)
    given = zip(complete(recordings, conditions), labels or [0] * count, machines or [1] * count, strict=True)
    segments = [Segment(one, label, 0, machine) for one, label, machine in given]
    names = [condition.name for condition in conditions]
    return Windows(segments_for(objective, segments), spec, conditions=names)
