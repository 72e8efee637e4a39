"""Models trained as a stack against the same models trained by autograd."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch

import cgsa.offline.trainer
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.condition import DiscriminatorConfig
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline.config import TrainConfig
from cgsa.offline.run import Progress
from cgsa.offline.stacked import CAPTURE_AT, StackedTraining
from cgsa.offline.trainer import train_models
from tests.machines import BOTH, manifest, training_windows, training_windows_of_both
from tests.offline.training import train_model

CONFIG = TrainConfig(epochs=3, batch_size=64, checkpoint_seconds=0.0)


@pytest.fixture
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Stack on a CPU, too; returns how many steps were taken for all."""
    steps = []
    run = StackedTraining._run

    def counted(self: StackedTraining) -> None:
        steps.append(self)
        run(self)

    monkeypatch.setattr(cgsa.offline.trainer, "STACKED_ON", ("cpu",))
    monkeypatch.setattr(StackedTraining, "_run", counted)
    return lambda: len(steps)


def near(ours: ModelBundle, theirs: ModelBundle) -> None:
    """Both say the same.

    Biases before a norm have no gradient but that of rounding, and wander; in training a norm takes no notice of them.
    """
    x = training_windows(step=32).gather(slice(None))
    features, expected = ours.network.features(x), theirs.network.features(x)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.network.classify(features), theirs.network.classify(expected), rtol=0, atol=1e-4)
    assert (ours.discriminator is None) == (theirs.discriminator is None)
    if ours.discriminator is not None and theirs.discriminator is not None:
        pair = [deepcopy(one).train() for one in (ours.discriminator, theirs.discriminator)]
        for said, wanted in zip(pair[0](features), pair[1](expected), strict=True):
            torch.testing.assert_close(said, wanted, rtol=0, atol=1e-3)
        counts = [one.state_dict().get("mean.1.num_batches_tracked") for one in pair]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("objective", ["plain", "cal"])
@pytest.mark.parametrize("longest", [None, 0.05])
@pytest.mark.parametrize("norm", ["batch", "none"])
def test_a_stack_learns_what_its_models_would_alone(
    on_a_cpu: Callable[[], int], objective: str, longest: float | None, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = training_windows(step=32)
    about = [manifest(objective=objective, seed=seed) for seed in (3, 1, 2)]
    config = replace(CONFIG, discriminator=DiscriminatorConfig(hidden=(8, 8), norm=norm))  # type: ignore[arg-type]
    settings = {"max_gradient_norm": longest, "lr": 1e-3}
    if objective == "cal" and longest is None:
        settings["adversary_weight"] = 0.3
    stacked = train_models(windows, about, config, objective_settings=settings)
    # Every step was one for all three.
    assert on_a_cpu() == CONFIG.epochs * (len(windows) // CONFIG.batch_size)
    monkeypatch.setattr(cgsa.offline.trainer, "STACKED_ON", ())
    for ours, one in zip(stacked, about, strict=True):
        theirs = train_model(windows, one, config, objective_settings=settings)
        near(ours, theirs)
        told, expected = (cast(list[dict[str, float]], one.training["history"]) for one in (ours, theirs))
        for row, wanted in zip(told, expected, strict=True):
            assert row.keys() == wanted.keys()
            for name in row.keys() - {"phase"}:
                # A share of windows is no smooth function of the weights.
                assert row[name] == pytest.approx(wanted[name], abs=2e-2 if name == "beyond_tau" else 2e-3), name


@pytest.mark.usefixtures("on_a_cpu")
def test_two_conditions_are_hidden_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A few steps: two adversaries at once let rounding grow.
    windows = training_windows_of_both()
    some, about = windows.subset(torch.arange(0, len(windows), 8)), manifest(conditions=BOTH.conditions)
    stacked = train_model(some, about, CONFIG)
    monkeypatch.setattr(cgsa.offline.trainer, "STACKED_ON", ())
    near(stacked, train_model(some, about, CONFIG))


@pytest.mark.usefixtures("on_a_cpu")
def test_a_stack_goes_on_from_checkpoints_of_different_age(tmp_path: Path) -> None:
    """One model has done an epoch before the others come; then one of them is done before the other."""
    windows = training_windows(step=32)
    about = [manifest(seed=seed) for seed in (1, 2)]
    whole = train_models(windows, about, CONFIG)

    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.row and progress.row["epoch"] == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_model(windows, about[0], CONFIG, checkpoint=tmp_path / "0", report=stop)
    with pytest.raises(StoppedError):
        train_models(windows, about, CONFIG, checkpoints=[tmp_path / "0", tmp_path / "1"], report=stop)
    resumed = train_models(windows, about, CONFIG, checkpoints=[tmp_path / "0", tmp_path / "1"])
    for ours, expected in zip(resumed, whole, strict=True):
        near(ours, expected)
    again = train_models(windows, about, CONFIG, checkpoints=[tmp_path / "0", tmp_path / "1"])
    for ours, expected in zip(again, resumed, strict=True):
        near(ours, expected)


@pytest.mark.usefixtures("on_a_cpu")
def test_a_stacked_model_is_a_bundle_of_its_own(tmp_path: Path) -> None:
    windows = training_windows(step=32)
    first, second = train_models(windows, [manifest(seed=1), manifest(seed=2)], CONFIG)
    storage = {parameter.untyped_storage().data_ptr() for parameter in first.network.parameters()}
    assert len(storage) == len(list(first.network.parameters()))
    second.save(tmp_path / "second")
    x = windows.gather(slice(0, 5))
    assert torch.equal(ModelBundle.load(tmp_path / "second").network(x), second.network(x))


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        ({"dropout": 0.1}, {}),
        ({"frontend": "spectrum"}, {}),
        ({"tap": 12}, {}),
        ({}, {"weight_decay": 0.1}),
        ({}, {"schedule": "one_cycle"}),
        ({}, {"label_smoothing": 0.1}),
    ],
)
def test_other_trainings_are_left_to_autograd(
    on_a_cpu: Callable[[], int], network: dict[str, object], settings: dict[str, object]
) -> None:
    shape = NetworkConfig(**{"hidden": (24, 12, 8), "tap": 8, **network})  # type: ignore[arg-type]
    about = replace(manifest(objective="plain"), network=shape)
    train_model(training_windows(step=32), about, replace(CONFIG, epochs=1), objective_settings=settings)
    assert on_a_cpu() == 0


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({"views": "every"}, {}),
        ({}, {"steps": "alternating"}),
        ({"discriminator": DiscriminatorConfig(hidden=(8, 8), norm="affine")}, {}),
    ],
)
def test_other_readings_of_cal_are_left_to_autograd(
    on_a_cpu: Callable[[], int], config: dict[str, object], settings: dict[str, object]
) -> None:
    short = replace(CONFIG, epochs=1, **config)  # type: ignore[arg-type]
    train_model(training_windows(step=32), manifest(), short, objective_settings=settings)
    assert on_a_cpu() == 0


@pytest.mark.usefixtures("on_a_cpu")
def test_a_recorded_step_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a GPU: nothing runs when a step is recorded, and a replay runs it."""
    windows = training_windows(step=32)
    expected = train_model(windows, manifest(), CONFIG)
    recorded: list[int] = []
    take_step = StackedTraining.take_requested_step

    def take_step_as_on_a_gpu(self: StackedTraining) -> None:
        if self._steps + 1 == CAPTURE_AT and self._requested:
            recorded.append(1)
            self._replay = self._run
        take_step(self)

    monkeypatch.setattr(StackedTraining, "take_requested_step", take_step_as_on_a_gpu)
    near(train_model(windows, manifest(), CONFIG), expected)
    assert recorded == [1]
