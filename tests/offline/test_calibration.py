from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgsa.data.windows import Windows
from cgsa.errors import BundleError, DataError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline.calibration import calibrate, fit_temperature
from cgsa.offline.checkpoint import FILE, remove_checkpoint
from cgsa.offline.config import TrainConfig
from cgsa.offline.folds import condition_folds, latest_fold
from cgsa.offline.run import Progress
from cgsa.offline.trainer import train_models
from tests.machines import BOTH, bundle, manifest, training_windows, training_windows_of_both
from tests.offline.test_folds import with_conditions

CONFIG = TrainConfig(epochs=2, batch_size=64, checkpoint_seconds=0.0)


def test_a_model_with_two_conditions_is_calibrated_for_both(tmp_path: Path) -> None:
    windows = training_windows_of_both(step=64)
    described = manifest(objective="plain", conditions=BOTH.conditions)
    reported: list[Progress] = []
    folder = tmp_path / "training"
    (calibrated,) = calibrate(
        train_models(windows, [described], CONFIG), windows, CONFIG, checkpoints=[folder], report=reported.append
    )
    names = [level.name for level in [*condition_folds(windows, BOTH.condition_names), latest_fold(windows)]]
    assert list(dict.fromkeys(progress.phase for progress in reported)) == [f"without {name}" for name in names]
    assert {name.split()[-1] for name in names} == {"torque", "speed", "quarter"}
    assert len(list(folder.rglob(FILE))) == len(names)
    assert calibrated.manifest.calibration is not None
    assert calibrated.manifest.calibration.levels == len(names) - 1


def test_the_temperature_matches_confidence_to_accuracy() -> None:
    """Labels drawn from softmax(scores / 2): the scores are overconfident by a factor of two."""
    generator = torch.Generator().manual_seed(0)
    scores = 4 * torch.randn(20_000, 3, generator=generator)
    labels = torch.multinomial(torch.softmax(scores / 2, dim=1), 1, generator=generator).squeeze(1)
    assert fit_temperature(scores, labels) == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize("reference", [False, True])
def test_models_are_calibrated_and_keep_their_calibration(reference: bool, tmp_path: Path) -> None:  # noqa: FBT001
    windows = training_windows(step=32)
    network = NetworkConfig(frontend="bands", hidden=(24, 8), tap=8, reference=reference)
    described = [replace(manifest(objective="plain", seed=seed), network=network) for seed in (1, 2)]
    bundles = train_models(windows, described, CONFIG, checkpoints=[tmp_path / "1", tmp_path / "2"])
    reported: list[Progress] = []
    folders = [tmp_path / "1", tmp_path / "2"]
    calibrated = calibrate(bundles, windows, CONFIG, checkpoints=folders, report=reported.append)
    levels = len(condition_folds(windows, ["torque"]))
    for one in calibrated:
        found = one.manifest.calibration
        assert found is not None
        assert found.levels == levels
        assert found.latest_accuracy is not None
        assert 0 < found.accuracy <= 1
        assert 0 < found.latest_accuracy <= 1
        assert found.held_out_accuracy == pytest.approx((found.accuracy + found.latest_accuracy) / 2)
    phases = [f"without level {n + 1} of {levels}" for n in range(levels)] + ["without the last quarter"]
    assert list(dict.fromkeys(progress.phase for progress in reported)) == phases
    # A second call trains nothing again and gives the same result.
    again: list[Progress] = []
    assert [one.manifest for one in calibrate(bundles, windows, CONFIG, checkpoints=folders, report=again.append)] == [
        one.manifest for one in calibrated
    ]
    assert again == []
    alone = calibrate(bundles[1:], windows, CONFIG)
    assert alone[0].manifest.calibration == calibrated[1].manifest.calibration
    assert alone[0].known is not None
    alone[0].save(tmp_path / "bundle")
    loaded = ModelBundle.load(tmp_path / "bundle")
    known, calibration = loaded.require_known()
    x = torch.randn(5, int(loaded.network.frontend.out_features))
    features = loaded.network.F(x)
    assert torch.equal(known(x, features), alone[0].known(x, features))
    assert calibration == alone[0].manifest.calibration
    for folder in folders:
        remove_checkpoint(folder)
        assert not folder.exists()
    assert not list(tmp_path.rglob(FILE))


def test_calibration_needs_two_levels() -> None:
    with pytest.raises(DataError, match="one condition"):
        calibrate([bundle()], with_conditions(torch.full((50,), 3.0)), CONFIG)
    without = training_windows()
    without.conditions = None
    with pytest.raises(DataError, match="these windows have none"):
        condition_folds(without, ["torque"])


def test_the_error_of_a_bundle_without_calibration_explains_how_to_get_one() -> None:
    plain = ModelBundle(manifest(), bundle().network, None)
    with pytest.raises(BundleError, match=r"train\.calibrate"):
        plain.require_known()


def test_taken_windows_keep_all_their_attributes() -> None:
    windows = training_windows()
    index = torch.tensor([3, 1, 200])
    some = windows.subset(index)
    assert len(some) == 3
    assert torch.equal(some.gather(slice(None)), windows.gather(index))
    for name in ("labels", "stages", "machines", "segments", "conditions"):
        assert np.array_equal(getattr(some, name), getattr(windows, name)[index])


def two_levels(healthy_of_second: list[int]) -> Windows:
    """Machine 1 is healthy at both levels, machine 2 at the given ones."""
    windows = training_windows(step=16)
    rows = torch.cat([torch.nonzero(windows.labels == label).squeeze(1)[:40] for label in range(3)])
    some = windows.subset(rows)
    some.machines = torch.arange(120) % 2 + 1
    level = torch.arange(120) // 2 % 2
    some.conditions = level[:, None].float()
    keep = (some.machines == 1) | (some.labels > 0) | torch.isin(level, torch.tensor(healthy_of_second))
    return some.subset(keep)


def test_a_machine_that_was_never_healthy_at_a_level_is_not_evaluated_there() -> None:
    network = NetworkConfig(frontend="bands", hidden=(24, 8), tap=8, reference=True)
    windows = two_levels(healthy_of_second=[0])
    trained = train_models(windows, [replace(manifest(objective="plain"), network=network)], CONFIG)
    (calibrated,) = calibrate(trained, windows, CONFIG)
    assert calibrated.manifest.calibration is not None
    assert calibrated.manifest.calibration.levels == 2
    alone = windows.subset(windows.machines == 2)
    with pytest.raises(DataError, match="no level of the condition can be left out"):
        calibrate(trained, alone, CONFIG)


def test_a_level_with_the_only_windows_of_a_class_is_not_held_out() -> None:
    windows = two_levels(healthy_of_second=[0, 1])
    assert windows.conditions is not None
    some = windows.subset((windows.labels != 2) | (windows.conditions[:, 0] == 1))
    (calibrated,) = calibrate(train_models(some, [manifest(objective="plain")], CONFIG), some, CONFIG)
    assert calibrated.manifest.calibration is not None
    assert calibrated.manifest.calibration.levels == 1
