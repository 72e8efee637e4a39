from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import BundleError, ConfigError, DataError, TrainingDivergedError, UnknownNameError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline import OBJECTIVES
from cgsa.offline.checkpoint import FILE
from cgsa.offline.config import TrainConfig
from cgsa.offline.inspection import measure_deviation
from cgsa.offline.run import Progress
from cgsa.offline.trainer import train_models
from tests.machines import BOTH, SCENARIO, ToyLibrary, manifest, training_windows, training_windows_of_both
from tests.offline.training import train_model

CONFIG = TrainConfig(epochs=4, batch_size=64, checkpoint_seconds=0.0)


def weights(bundle: ModelBundle) -> dict[str, torch.Tensor]:
    found = dict(bundle.network.state_dict())
    if bundle.discriminator is not None:
        found |= {f"D.{name}": tensor for name, tensor in bundle.discriminator.state_dict().items()}
    return found


def same(a: ModelBundle, b: ModelBundle) -> bool:
    left, right = weights(a), weights(b)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_every_objective_learns_the_toy_machine(objective: str) -> None:
    windows = training_windows()
    settings = {"lr": 3e-3} | ({"classifier_share": 1.0} if objective == "supcon" else {})
    bundle = train_model(
        windows, manifest(objective=objective), replace(CONFIG, epochs=12), objective_settings=settings
    )
    predicted = bundle.network(windows.gather(slice(None))).argmax(dim=1)
    assert float((predicted == windows.labels).float().mean()) > 0.9
    assert bundle.manifest.notes == ()
    assert (bundle.discriminator is not None) == (objective == "cal")


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_training_depends_only_on_the_seed(objective: str) -> None:
    windows = training_windows(step=32)
    first, again = (train_model(windows, manifest(objective=objective, seed=1), CONFIG) for _ in range(2))
    other = train_model(windows, manifest(objective=objective, seed=2), CONFIG)
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_a_regularised_model_learns_the_same_alone_and_with_others(objective: str, tmp_path: Path) -> None:
    """Dropout draws from the training's own generator; decay, schedule and smoothing hold for every objective."""
    windows = training_windows(step=32)
    settings = {"weight_decay": 1e-2, "schedule": "one_cycle", "label_smoothing": 0.1}
    network = NetworkConfig(frontend="spectrum", hidden=(24, 8), tap=8, dropout=0.2)
    described = [replace(manifest(objective=objective, seed=seed), network=network) for seed in (1, 2)]
    parallel = train_models(windows, described, CONFIG, objective_settings=settings)
    alone = train_model(windows, described[1], CONFIG, objective_settings=settings)
    assert same(parallel[1], alone)
    assert not same(parallel[0], alone)
    alone.save(tmp_path / "bundle")
    x = windows.gather(slice(0, 5))
    assert torch.equal(ModelBundle.load(tmp_path / "bundle").network(x), alone.network(x))


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_models_trained_in_parallel_equal_models_trained_alone(objective: str, tmp_path: Path) -> None:
    windows = training_windows(step=32)
    described = [manifest(objective=objective, seed=seed) for seed in (3, 1, 2)]
    reported: list[Progress] = []
    parallel = train_models(
        windows, described, CONFIG, checkpoints=[tmp_path / str(number) for number in range(3)], report=reported.append
    )
    alone = [train_model(windows, one, CONFIG) for one in described]
    assert all(same(a, b) for a, b in zip(parallel, alone, strict=True))
    assert [bundle.training["history"] for bundle in parallel] == [bundle.training["history"] for bundle in alone]
    assert sum(progress.row is not None for progress in reported) == len(alone[0].training["history"])  # type: ignore[arg-type]


def test_the_usual_confidence_is_what_nearly_all_training_windows_reach() -> None:
    windows = training_windows()
    bundle = train_model(windows, manifest(objective="plain"), CONFIG)
    confidence = torch.softmax(bundle.network(windows.gather(slice(None))), dim=1).amax(dim=1)
    usual = bundle.manifest.usual_confidence
    assert usual is not None
    assert abs(float((confidence < usual).float().mean()) - 0.05) <= 1 / len(windows)


def test_the_usual_responses_cover_nearly_all_training_windows() -> None:
    windows = training_windows()
    bundle = train_model(windows, manifest(objective="cal"), CONFIG)
    response = bundle.require_discriminator().response(bundle.network.features(windows.gather(slice(None))))
    assert bundle.manifest.usual_responses is not None
    ((low, high),) = bundle.manifest.usual_responses
    assert float(((response < low) | (response > high)).float().mean()) == pytest.approx(0.01, abs=2 / len(windows))
    assert train_model(windows, manifest(objective="plain"), CONFIG).manifest.usual_responses is None


def test_a_dead_discriminator_is_noted() -> None:
    windows, described = training_windows(), manifest(objective="cal")
    assert not any("discriminator" in note for note in train_model(windows, described, CONFIG).manifest.notes)
    with patch.object(ConditionDiscriminator, "response", lambda _, features: features[:, :1] * 1e-6):
        notes = train_model(windows, described, CONFIG).manifest.notes
    assert any("the discriminator is dead" in note for note in notes)


def test_the_note_of_a_dead_discriminator_names_the_condition() -> None:
    windows, described = training_windows_of_both(), manifest(conditions=BOTH.conditions)
    trained = train_model(windows, described, CONFIG)
    assert trained.require_discriminator().response(torch.zeros(5, 8)).shape == (5, 2)
    assert not any("discriminator" in note for note in trained.manifest.notes)
    one_dead = torch.tensor([1, 1e-6])
    with patch.object(ConditionDiscriminator, "response", lambda _, features: features[:, :2] * one_dead):
        notes = train_model(windows, described, CONFIG).manifest.notes
    (dead,) = [note for note in notes if "the discriminator is dead" in note]
    assert "its response to speed deviates" in dead


def test_windows_and_model_must_have_equally_many_conditions() -> None:
    with pytest.raises(DataError, match="windows have 1 conditions; the manifest says 2"):
        train_model(training_windows(), manifest(conditions=BOTH.conditions), CONFIG)


class StopError(Exception):
    pass


@pytest.mark.parametrize("objective", list(OBJECTIVES))
@pytest.mark.parametrize("stop_after", [1, 3, 4])
def test_an_interrupted_training_resumes_with_bit_identical_results(
    objective: str, stop_after: int, tmp_path: Path
) -> None:
    windows, described = training_windows(step=32), manifest(objective=objective)
    whole = train_model(windows, described, CONFIG)
    epochs = 0

    def stop(progress: Progress) -> None:
        nonlocal epochs
        epochs += progress.row is not None
        if epochs == stop_after and progress.row is None:
            raise StopError

    try:
        train_model(windows, described, CONFIG, checkpoint=tmp_path, report=stop)
    except StopError:
        assert (tmp_path / FILE).exists()
    done_again: list[Progress] = []
    resumed = train_model(windows, described, CONFIG, checkpoint=tmp_path, report=done_again.append)
    assert same(whole, resumed)
    history = whole.training["history"]
    assert isinstance(history, list)
    assert resumed.training["history"] == history
    assert sum(progress.row is not None for progress in done_again) == len(history) - stop_after


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    windows, described = training_windows(step=32), manifest()
    first = train_model(windows, described, CONFIG, checkpoint=tmp_path)
    calls: list[Progress] = []
    again = train_model(windows, described, CONFIG, checkpoint=tmp_path, report=calls.append)
    assert same(first, again)
    assert calls == []


def test_another_training_cannot_resume_from_a_checkpoint(tmp_path: Path) -> None:
    windows, described = training_windows(step=32), manifest()
    train_model(windows, described, CONFIG, checkpoint=tmp_path)
    with pytest.raises(BundleError, match="made by another training: training differ"):
        train_model(windows, described, replace(CONFIG, epochs=5), checkpoint=tmp_path)
    with pytest.raises(BundleError, match="model differ"):
        train_model(windows, replace(described, seed=9), CONFIG, checkpoint=tmp_path)
    with pytest.raises(BundleError, match="data differ"):
        train_model(training_windows(step=16), described, CONFIG, checkpoint=tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"junk")
    with pytest.raises(BundleError, match="no training checkpoint"):
        train_model(training_windows(step=32), manifest(), CONFIG, checkpoint=tmp_path)


def test_history_logs_losses_accuracy_and_the_discriminators_r2() -> None:
    rows: list[dict[str, object]] = []
    train_model(
        training_windows(step=32),
        manifest(),
        CONFIG,
        report=lambda p: rows.append(dict(p.row)) if p.row is not None else None,
    )
    assert len(rows) == 4
    for row in rows:
        assert {"loss", "classification", "condition", "accuracy", "discriminator_r2"} <= row.keys()


def test_r2_is_high_if_nothing_hides_the_condition() -> None:
    """With a gamma near zero F is not asked to hide the torque, and D finds it in the amplitude of the line."""
    bundle = train_model(
        training_windows(),
        manifest(),
        replace(CONFIG, epochs=30),
        objective_settings={"gamma": 1e-6, "lr": 3e-3},
    )
    history = bundle.training["history"]
    assert isinstance(history, list)
    assert history[-1]["discriminator_r2"] > history[0]["discriminator_r2"]


def test_divergence_raises_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(
        TrainingDivergedError, match=r"plain training diverged in epoch \d+ of 40.*lower the learning rate"
    ):
        train_model(
            training_windows(step=32),
            manifest(objective="plain"),
            replace(CONFIG, epochs=40),
            objective_settings={"lr": 1e30},
        )


def test_a_failed_training_is_noted() -> None:
    bundle = train_model(
        training_windows(step=32), manifest(objective="plain"), CONFIG, objective_settings={"lr": 1e-12}
    )
    assert "training failed: final training accuracy" in bundle.manifest.notes[0]


def test_an_empty_class_is_refused() -> None:
    segments = [piece for piece in SCENARIO.training_segments(ToyLibrary()) if piece.label != 2]
    with pytest.raises(DataError, match="no training window of class crack"):
        train_model(Windows(segments, WindowSpec(32, 32), conditions=["torque"]), manifest(), CONFIG)


def test_other_channels_are_refused() -> None:
    with pytest.raises(DataError, match="windows have channels"):
        train_model(training_windows(), replace(manifest(), channels=("a", "c")), CONFIG)


def test_unknown_objectives_and_settings_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cal'"):
        train_model(training_windows(), manifest(objective="call"), CONFIG)
    with pytest.raises(ConfigError, match="objective cal: gama: no such setting; did you mean 'gamma'"):
        train_model(training_windows(), manifest(), CONFIG, objective_settings={"gama": 1})
    with pytest.raises(ConfigError, match="0 epochs"):
        TrainConfig(epochs=0)


def test_the_global_random_state_stays_unchanged() -> None:
    before = torch.get_rng_state()
    train_model(training_windows(step=32), manifest(objective="supcon"), CONFIG)
    assert torch.equal(before, torch.get_rng_state())


def test_every_epoch_logs_the_response_on_the_scale_of_tau_and_the_bundle_carries_its_deviation(tmp_path: Path) -> None:
    windows = training_windows()
    bundle = train_model(windows, manifest(objective="cal"), CONFIG)
    history = bundle.training["history"]
    assert isinstance(history, list)
    assert all({"response_spread", "median_deviation", "beyond_tau"} <= row.keys() for row in history)
    bundle.save(tmp_path / "bundle")
    usual = ModelBundle.load(tmp_path / "bundle").manifest.usual_deviation
    assert usual is not None
    assert usual == bundle.manifest.usual_deviation
    assert history[-1]["median_deviation"] == pytest.approx(usual.at(0.5), rel=0.5)
    plain = train_model(windows, manifest(objective="plain"), CONFIG)
    assert plain.manifest.usual_deviation is None
    assert "response_spread" not in plain.training["history"][-1]  # type: ignore[index]


def test_a_response_far_below_tau_is_noted() -> None:
    windows, described = training_windows(), manifest(objective="cal")
    with patch.object(ConditionDiscriminator, "response", lambda _, x: 0.004 * torch.sin(1e3 * x[:, :1])):
        notes = train_model(windows, described, CONFIG).manifest.notes
    (note,) = [note for note in notes if "hardly moves" in note]
    assert "rejects 0% of the training windows" in note
    assert "method.cgsa.tau=auto" in note


def test_measuring_a_model_changes_neither_it_nor_its_mode() -> None:
    windows, about = training_windows(), manifest(objective="cal")
    bundle = train_model(windows, about, CONFIG)
    discriminator = bundle.require_discriminator().train()
    before = {name: tensor.clone() for name, tensor in discriminator.state_dict().items()}
    measure_deviation(bundle.network, discriminator, windows, about.window, 4)
    assert all(module.training for module in discriminator.modules())
    assert not bundle.network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in discriminator.state_dict().items())
