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
from cgsa.offline.checkpoint import FILE, remove_checkpoint
from cgsa.offline.held_out import calibrate, condition_levels, find_levels, fit_temperature, recorded_last, within_reach
from cgsa.offline.trainer import Progress, TrainConfig, train_together
from tests.machines import BOTH, bundle, manifest, training_windows, training_windows_of_both

CONFIG = TrainConfig(epochs=2, batch_size=64, checkpoint_seconds=0.0)


def with_conditions(values: torch.Tensor) -> Windows:
    windows = training_windows(step=64)
    some = windows.take(torch.arange(len(values)))
    some.conditions = values[:, None]
    return some


def test_held_values_are_levels_of_their_own() -> None:
    noise = 0.05 * torch.randn(60, generator=torch.Generator().manual_seed(0))
    values = torch.tensor([30.0, 10.0, 20.0]).repeat_interleave(20) + noise
    levels = condition_levels(values)
    assert levels.tolist() == [2] * 20 + [0] * 20 + [1] * 20


def test_a_continuous_change_is_cut_into_equal_parts_of_its_range() -> None:
    levels = condition_levels(torch.linspace(0, 10, 100))
    assert torch.bincount(levels).tolist() == pytest.approx([20] * 5, abs=1)
    # However long a value in it was held.
    held = torch.cat([torch.linspace(0, 10, 50), 5 + 0.1 * torch.linspace(-1, 1, 200)])
    assert torch.bincount(condition_levels(held)).tolist() == pytest.approx([10, 10, 210, 10, 10], abs=1)
    # One gap in a change does not make two levels of it.
    gap = torch.cat([torch.linspace(0, 5, 50), torch.linspace(6, 10, 50)])
    assert int(condition_levels(gap).max()) == 4


def test_levels_are_left_out_along_each_condition_in_turn() -> None:
    windows = with_conditions(torch.zeros(12))
    speed, load = torch.tensor([30.0, 10.0, 20.0]).repeat_interleave(4), torch.tensor([0.0, 5.0]).repeat(6)
    windows.conditions = torch.stack([speed, torch.full((12,), 7.0), load], dim=1)
    levels = find_levels(windows, ["speed", "torque", "load"])
    assert [(level.name, level.between) for level in levels] == [
        ("level 1 of 3 of speed", False),
        ("level 2 of 3 of speed", True),
        ("level 3 of 3 of speed", False),
        ("level 1 of 2 of load", False),
        ("level 2 of 2 of load", False),
    ]
    members = [level.members.nonzero().squeeze(1).tolist() for level in levels]
    assert members == [[4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3], [0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    windows.conditions = windows.conditions[:, :1]
    assert [level.name for level in find_levels(windows, ["speed"])] == [f"level {n} of 3" for n in (1, 2, 3)]


def test_what_was_recorded_last_shares_no_sample_with_the_rest() -> None:
    windows = training_windows(step=16)
    level = recorded_last(windows)
    length = windows.spec.length
    for segment in set(windows.segments.tolist()):
        mine = windows.segments == segment
        begins = windows.starts[mine]
        last, rest = begins[level.members[mine]], begins[level.rest[mine]]
        assert len(last)
        assert int(rest.max()) + length <= int(last.min())
        assert int(last.min()) >= int(begins.min()) + 0.75 * (int(begins.max()) + length - int(begins.min()))


def test_a_model_of_two_conditions_is_judged_along_both(tmp_path: Path) -> None:
    windows = training_windows_of_both(step=64)
    about = manifest(objective="plain", conditions=BOTH.conditions)
    heard: list[Progress] = []
    folder = tmp_path / "training"
    (judged,) = calibrate(
        train_together(windows, [about], CONFIG), windows, CONFIG, checkpoints=[folder], report=heard.append
    )
    names = [level.name for level in [*find_levels(windows, BOTH.condition_names), recorded_last(windows)]]
    assert list(dict.fromkeys(progress.phase for progress in heard)) == [f"without {name}" for name in names]
    assert {name.split()[-1] for name in names} == {"torque", "speed", "quarter"}
    assert len(list(folder.rglob(FILE))) == len(names)
    assert judged.manifest.calibration is not None
    assert judged.manifest.calibration.levels == len(names) - 1


def test_levels_far_beyond_the_others_are_told_apart() -> None:
    assert within_reach([600, 1800, 3000]) == [False, True, False]
    assert within_reach([20, 30, 40, 50]) == [True, True, True, True]
    assert within_reach([0, 1, 2, 3, 30]) == [True, True, True, True, False]
    assert within_reach([1, 9]) == [True, True]


def test_the_temperature_makes_scores_claim_what_they_are_worth() -> None:
    """Labels drawn from softmax(scores / 2): the scores claim too much by a factor of two."""
    generator = torch.Generator().manual_seed(0)
    scores = 4 * torch.randn(20_000, 3, generator=generator)
    labels = torch.multinomial(torch.softmax(scores / 2, dim=1), 1, generator=generator).squeeze(1)
    assert fit_temperature(scores, labels) == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize("reference", [False, True])
def test_models_are_judged_without_a_level_and_remember_it(reference: bool, tmp_path: Path) -> None:  # noqa: FBT001
    windows = training_windows(step=32)
    network = NetworkConfig(frontend="bands", hidden=(24, 8), tap=8, reference=reference)
    about = [replace(manifest(objective="plain", seed=seed), network=network) for seed in (1, 2)]
    bundles = train_together(windows, about, CONFIG, checkpoints=[tmp_path / "1", tmp_path / "2"])
    heard: list[Progress] = []
    folders = [tmp_path / "1", tmp_path / "2"]
    judged = calibrate(bundles, windows, CONFIG, checkpoints=folders, report=heard.append)
    levels = len(find_levels(windows, ["torque"]))
    for one in judged:
        found = one.manifest.calibration
        assert found is not None
        assert found.levels == levels
        assert found.later is not None
        assert 0 < found.accuracy <= 1
        assert 0 < found.later <= 1
        assert found.held_out_accuracy == pytest.approx((found.accuracy + found.later) / 2)
    phases = [f"without level {n + 1} of {levels}" for n in range(levels)] + ["without the last quarter"]
    assert list(dict.fromkeys(progress.phase for progress in heard)) == phases
    # Stopped and called again, nothing is trained twice and the result is the same.
    again: list[Progress] = []
    assert [one.manifest for one in calibrate(bundles, windows, CONFIG, checkpoints=folders, report=again.append)] == [
        one.manifest for one in judged
    ]
    assert again == []
    alone = calibrate(bundles[1:], windows, CONFIG)
    assert alone[0].manifest.calibration == judged[1].manifest.calibration
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


def test_one_condition_is_too_few() -> None:
    with pytest.raises(DataError, match="one condition"):
        calibrate([bundle()], with_conditions(torch.full((50,), 3.0)), CONFIG)
    without = training_windows()
    without.conditions = None
    with pytest.raises(DataError, match="these windows have none"):
        find_levels(without, ["torque"])


def test_a_bundle_without_calibration_says_how_to_get_one() -> None:
    plain = ModelBundle(manifest(), bundle().network, None)
    with pytest.raises(BundleError, match=r"train\.calibrate"):
        plain.require_known()


def test_some_windows_keep_everything_of_theirs() -> None:
    windows = training_windows()
    index = torch.tensor([3, 1, 200])
    some = windows.take(index)
    assert len(some) == 3
    assert torch.equal(some.gather(slice(None)), windows.gather(index))
    for name in ("labels", "parts", "machines", "segments", "conditions"):
        assert np.array_equal(getattr(some, name), getattr(windows, name)[index])


def two_levels(healthy_of_second: list[int]) -> Windows:
    """Machine 1 is healthy at both levels, machine 2 at those that are named."""
    windows = training_windows(step=16)
    rows = torch.cat([torch.nonzero(windows.labels == label).squeeze(1)[:40] for label in range(3)])
    some = windows.take(rows)
    some.machines = torch.arange(120) % 2 + 1
    level = torch.arange(120) // 2 % 2
    some.conditions = level[:, None].float()
    keep = (some.machines == 1) | (some.labels > 0) | torch.isin(level, torch.tensor(healthy_of_second))
    return some.take(keep)


def test_a_machine_that_was_never_healthy_at_a_level_is_not_judged_there() -> None:
    network = NetworkConfig(frontend="bands", hidden=(24, 8), tap=8, reference=True)
    windows = two_levels(healthy_of_second=[0])
    trained = train_together(windows, [replace(manifest(objective="plain"), network=network)], CONFIG)
    (judged,) = calibrate(trained, windows, CONFIG)
    assert judged.manifest.calibration is not None
    assert judged.manifest.calibration.levels == 2
    alone = windows.take(windows.machines == 2)
    with pytest.raises(DataError, match="no level of the condition can be left out"):
        calibrate(trained, alone, CONFIG)


def test_a_level_that_alone_holds_a_class_is_not_left_out() -> None:
    windows = two_levels(healthy_of_second=[0, 1])
    assert windows.conditions is not None
    some = windows.take((windows.labels != 2) | (windows.conditions[:, 0] == 1))
    (judged,) = calibrate(train_together(some, [manifest(objective="plain")], CONFIG), some, CONFIG)
    assert judged.manifest.calibration is not None
    assert judged.manifest.calibration.levels == 1
