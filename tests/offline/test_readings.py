"""The settings for what the paper leaves open; the defaults are those of before, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from cgsa import workflow
from cgsa.config import as_table
from cgsa.errors import ConfigError
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.losses import gaussian_nll
from cgsa.nn.mlp import DiagnosisNet, build_seeded
from cgsa.nn.optim import lr_factor, make_adam
from cgsa.offline.base import Batch
from cgsa.offline.cal import Cal, CalConfig
from cgsa.offline.config import TrainConfig
from cgsa.offline.step import TrainingStep, scaled_conditions
from cgsa.profile import Profile
from tests.machines import CLASSES, SCENARIO, SPEC, ToyLibrary, manifest, training_windows
from tests.offline.training import train_model

CONFIG = TrainConfig(epochs=2, batch_size=64, discriminator=DiscriminatorConfig(hidden=(8, 8)))
FREE = {"max_gradient_norm": None, "lr": 1e-3}


def test_tables_of_older_versions_stay_as_they_are() -> None:
    """Checkpoints and saved states are compared by their tables."""
    new = {"views", "assemblies", "condition_ranges", "coupled_decay", "adversary_weight", "steps"}
    assert not new & (as_table(TrainConfig()).keys() | as_table(CalConfig()).keys())
    changed = TrainConfig(views="every", assemblies=1, condition_ranges={"torque": (0.0, 20.0)})
    assert as_table(changed)["condition_ranges"] == {"torque": [0.0, 20.0]}
    assert as_table(CalConfig(adversary_weight=0.0))["adversary_weight"] == 0.0


@pytest.mark.parametrize("steps", ["joint", "alternating"])
def test_without_weight_f_and_g_learn_as_if_there_were_no_adversary(steps: str) -> None:
    windows = training_windows(step=32)
    alone = train_model(windows, manifest(objective="plain"), CONFIG, objective_settings=FREE)
    settings = {**FREE, "adversary_weight": 0.0, "steps": steps}
    beside = train_model(windows, manifest(), CONFIG, objective_settings=settings)
    for ours, theirs in zip(beside.network.parameters(), alone.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    untrained = build_seeded(0, lambda: ConditionDiscriminator(8, DiscriminatorConfig(hidden=(8, 8))))
    learned = zip(beside.require_discriminator().parameters(), untrained.parameters(), strict=True)
    assert any(not torch.equal(ours, before) for ours, before in learned)


def test_a_smaller_weight_changes_f_less() -> None:
    windows = training_windows(step=32)

    def features(weight: float) -> torch.Tensor:
        trained = train_model(windows, manifest(), CONFIG, objective_settings={**FREE, "adversary_weight": weight})
        return trained.network.features(windows.gather(slice(None)))

    alone, little, full = features(0.0), features(0.1), features(1.0)
    assert 0 < float((little - alone).norm()) < float((full - alone).norm())


def test_alternating_steps_are_those_of_two_optimisers() -> None:
    """A literal twin: D descends on detached features, then F and G with D as it is now."""
    windows, about, config = training_windows(step=32), manifest(), CalConfig(steps="alternating", adversary_weight=0.5)

    def build() -> Cal:
        network = DiagnosisNet(about.network, 2, SPEC.length, len(CLASSES))
        return Cal(config, network, parts=2, conditions=1, discriminator=CONFIG.discriminator)

    ours, theirs = build_seeded(0, build), build_seeded(0, build)
    (phase,) = ours.phases(1)
    both = [p for module in phase.modules for p in module.parameters()]
    step = TrainingStep(windows, about.conditions, phase, make_adam(both, config.lr), batch_size=64, config=config)
    step.begin_epoch(0)

    network, adversary = theirs.network, theirs.discriminator
    own, other = make_adam(network.parameters(), config.lr), make_adam(adversary.parameters(), config.lr)
    condition = scaled_conditions(windows, about.conditions)
    for number, index in enumerate(torch.split(torch.arange(192), 64)):
        progress = 0.2 * number
        step(index, progress)
        x, target = windows.gather(index), condition[index]

        def loss_of(features: torch.Tensor, target: torch.Tensor = target) -> torch.Tensor:
            mean, log_variance = adversary(features)
            return gaussian_nll(mean, log_variance.clamp(*config.log_variance_range), target)

        other.zero_grad()
        torch.autograd.backward(loss_of(network.features(x).detach()))
        torch.nn.utils.clip_grad_norm_(adversary.parameters(), 5.0)
        other.step()
        features = network.features(x)
        coefficient = 0.5 * (2 / (1 + torch.exp(torch.tensor(-10.0 * progress))) - 1)
        own.zero_grad()
        classification = cross_entropy(network.classify(features), windows.labels[index])
        torch.autograd.backward(classification - coefficient * loss_of(features))
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        own.step()
    for mine, wanted in zip(both, [*network.parameters(), *adversary.parameters()], strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=1e-6)
    assert step.statistics().keys() == {"loss", "classification", "condition", "accuracy", "discriminator_r2"}


def test_alternating_steps_can_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a GPU: a capture runs nothing, and a replay runs the function."""
    monkeypatch.setattr("cgsa.offline.step.capture", lambda function, _generator: function)
    windows, about, config = training_windows(step=32), manifest(), CalConfig(steps="alternating")

    def build() -> Cal:
        network = DiagnosisNet(about.network, 2, SPEC.length, len(CLASSES))
        return Cal(config, network, parts=2, conditions=1, discriminator=CONFIG.discriminator, views="every")

    def trained(*, captured: bool) -> torch.Tensor:
        objective = build_seeded(0, build)
        (phase,) = objective.phases(1)
        both = [p for module in phase.modules for p in module.parameters()]
        step = TrainingStep(windows, about.conditions, phase, make_adam(both, 1e-3), batch_size=64, config=config)
        if captured:
            step._step = step._captured(64)
        step.begin_epoch(0)
        for number, index in enumerate(torch.split(torch.arange(192), 64)):
            step(index, 0.2 * number)
        return torch.cat([p.detach().flatten() for p in both])

    assert torch.equal(trained(captured=False), trained(captured=True))


@pytest.mark.parametrize("objective", ["plain", "supcon", "dann", "cal"])
def test_views_for_every_objective_or_for_none(objective: str) -> None:
    windows, about = training_windows(step=32), manifest(objective=objective)

    def weights(views: str) -> torch.Tensor:
        config = replace(CONFIG, views=views)  # type: ignore[arg-type]
        return torch.cat([p.flatten() for p in train_model(windows, about, config).network.parameters()])

    default, every, none = weights("contrast"), weights("every"), weights("none")
    assert torch.equal(every, weights("every"))
    assert not torch.equal(every, default)
    assert torch.equal(none, default) == (objective != "supcon")


def test_a_view_is_drawn_from_raw_windows_whatever_the_front_end_is() -> None:
    about = manifest(objective="plain")
    spectra = replace(about, network=replace(about.network, frontend="spectrum"))
    bundle = train_model(training_windows(step=32), spectra, replace(CONFIG, views="every"))
    assert bundle.network.frontend.out_features > 0


def test_the_loss_sees_a_view_and_the_labels_of_its_window() -> None:
    windows, about = training_windows(step=32), manifest(objective="cal")
    network = build_seeded(0, lambda: DiagnosisNet(about.network, 2, SPEC.length, len(CLASSES)))
    shape = DiscriminatorConfig(hidden=(8, 8))
    objective = Cal(CalConfig(), network, parts=2, conditions=1, discriminator=shape, views="every")
    index = torch.arange(16)
    generator = torch.Generator().manual_seed(0)
    condition = scaled_conditions(windows, about.conditions)[index]
    batch = Batch(windows.gather(index), windows.labels[index], condition, windows.stages[index], generator)
    seen: list[Batch] = []

    def remember(given: Batch, _progress: torch.Tensor):  # type: ignore[no-untyped-def]
        seen.append(given)

    objective.on_views(remember)(batch, torch.tensor(0.0))
    assert seen[0].x.shape == batch.x.shape
    assert not torch.equal(seen[0].x, batch.x)
    assert torch.equal(seen[0].label, batch.label)


def test_the_learning_rate_is_halved_every_quarter() -> None:
    factors = [lr_factor(progress, "halving") for progress in (0.0, 0.25, 0.5, 0.75)]
    assert factors == pytest.approx([1.0, 0.5, 0.25, 0.125])


def test_coupled_decay_is_part_of_the_gradient() -> None:
    """The first step of Adam has the size of its rate whatever the gradient is, so that decoupled decay shows."""
    found = []
    for coupled in (True, False):
        weight = torch.nn.Parameter(torch.tensor([2.0, -1.0]))
        optimizer = make_adam([weight], 0.1, weight_decay=0.5, coupled_decay=coupled)
        torch.autograd.backward((weight * torch.tensor([1.0, 1.0])).sum())
        optimizer.step()
        found.append(weight.detach())
    torch.testing.assert_close(found[0], torch.tensor([1.9, -1.1]), rtol=0, atol=1e-5)
    torch.testing.assert_close(found[1], torch.tensor([1.8, -1.05]), rtol=0, atol=1e-5)


def toy_profile(**train: object) -> Profile:
    settings = {"step": 32, "epochs": 1, "batch_size": 64, "discriminator": {"hidden": [8, 8]}, **train}
    network = {"hidden": [24, 12, 8], "tap": 8}
    return Profile.load("paper", {"train": settings, "network": network, "window": {"length": 32, "step": 4}})


def test_the_number_of_assemblies_is_a_setting() -> None:
    machines = {
        count: set(workflow.training_windows(SCENARIO, toy_profile(**limit), ToyLibrary()).machines.tolist())
        for count, limit in ((1, {"assemblies": 1}), (2, {}))
    }
    assert machines == {1: {1}, 2: {1, 2}}
    with pytest.raises(ConfigError, match="assemblies 0; expected at least one"):
        toy_profile(assemblies=0)


def test_the_range_of_the_condition_is_a_setting() -> None:
    profile = toy_profile(condition_ranges={"torque": [0, 20]})
    windows = workflow.training_windows(SCENARIO, profile, ToyLibrary())
    [bundle] = workflow.train(SCENARIO, profile, windows, objective="cal")
    (torque,) = bundle.manifest.conditions
    assert (torque.minimum, torque.maximum) == (0, 20)
    with pytest.raises(ConfigError, match="condition_ranges of load; this machine has torque"):
        workflow.train(SCENARIO, toy_profile(condition_ranges={"load": [0, 1]}), windows, objective="cal")
