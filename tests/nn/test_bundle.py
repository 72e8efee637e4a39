from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import zipfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from cgsa.errors import BundleError
from cgsa.nn.bundle import MANIFEST, TENSORS, ModelBundle
from cgsa.nn.known import KnownCheck
from cgsa.online.tent_full import TentFull
from tests.machines import BOTH, CONDITION, bundle, ensemble_bundle


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return bundle().save(tmp_path / "model")


def change_manifest(folder: Path, **changes: Any) -> None:
    text = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**text, **changes}))


def change_model(folder: Path, **changes: Any) -> None:
    text = json.loads((folder / MANIFEST).read_text())
    change_manifest(folder, model={**text["model"], **changes})


def test_a_bundle_is_read_back_unchanged(saved: Path) -> None:
    original, loaded = bundle(), ModelBundle.load(saved)
    assert loaded.manifest == original.manifest
    x = torch.randn(4, 2, 32)
    assert torch.equal(loaded.network(x), original.network(x))
    features = loaded.network.features(x)
    assert torch.equal(
        loaded.require_discriminator().response(features), original.require_discriminator().response(features)
    )


def test_a_single_condition_is_stored_as_in_the_first_version(saved: Path) -> None:
    model = json.loads((saved / MANIFEST).read_text())["model"]
    assert model["condition"] == {"name": "torque", "unit": "Nm", "minimum": 0, "maximum": 10, "tolerance": 0.5}
    assert "conditions" not in model


def test_several_conditions_are_read_back_unchanged(tmp_path: Path) -> None:
    original = bundle(conditions=BOTH.conditions)
    loaded = ModelBundle.load(original.save(tmp_path / "model"))
    assert loaded.manifest == original.manifest
    features = torch.randn(4, 8)
    response = loaded.require_discriminator().response(features)
    assert response.shape == (4, 2)
    assert torch.equal(response, original.require_discriminator().response(features))
    change_model(tmp_path / "model", conditions=[{**vars(CONDITION)}])
    with pytest.raises(
        BundleError, match=r"discriminator\.mean\.6\.weight is torch\.float32 \(2, 8\), expected .*\(1, 8\)"
    ):
        ModelBundle.load(tmp_path / "model")


def test_saving_again_replaces_the_bundle(saved: Path) -> None:
    bundle(seed=5).save(saved)
    assert ModelBundle.load(saved).manifest.seed == 5
    assert sorted(path.name for path in saved.parent.iterdir()) == ["model"]


def test_saving_never_replaces_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(BundleError, match="exists and is no bundle"):
        bundle().save(tmp_path)


def test_a_full_disk_keeps_the_old_bundle(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BundleError, match="No space left"):
        bundle(seed=5).save(saved)
    monkeypatch.undo()
    assert ModelBundle.load(saved).manifest.seed == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "bundle version 99; this cgsa reads version 1"),
        ({"format": "zip"}, "no cgsa-bundle manifest"),
        ({"model": 3}, "'model' is missing"),
        ({"sha256": "0" * 64}, "hash differs"),
    ],
)
def test_foreign_manifests_are_refused(saved: Path, changes: dict[str, Any], message: str) -> None:
    change_manifest(saved, **changes)
    with pytest.raises(BundleError, match=message):
        ModelBundle.load(saved)


def test_another_shape_is_refused_tensor_by_tensor(saved: Path) -> None:
    change_model(saved, network={"hidden": [24, 16, 8], "tap": 8})
    with pytest.raises(
        BundleError, match=r"tensor network\.F\.2\.weight is torch\.float32 \(12, 24\), expected .*\(16, 24\)"
    ):
        ModelBundle.load(saved)


def test_a_model_too_large_for_any_memory_is_refused_at_once(saved: Path) -> None:
    change_model(saved, network={"hidden": [2**40, 8], "tap": 8})
    with pytest.raises(BundleError, match="no such model fits into memory"):
        ModelBundle.load(saved)


def test_a_huge_but_allowed_model_costs_no_memory_before_it_is_refused(saved: Path) -> None:
    change_model(saved, network={"hidden": [2**20, 2**20, 8], "tap": 8})  # 4 TiB of weights if it were built
    with pytest.raises(BundleError, match="does not fit its manifest"):
        ModelBundle.load(saved)


def rewrite_tensors(folder: Path, data: bytes) -> None:
    (folder / TENSORS).write_bytes(data)
    change_manifest(folder, sha256=hashlib.sha256(data).hexdigest())


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("exploded",))


def test_a_pickle_is_refused_and_never_run(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite_tensors(saved, pickle.dumps(Bomb()))
    with pytest.raises(BundleError, match="not a safetensors file"):
        ModelBundle.load(saved)
    torch.save({"x": Bomb()}, saved / TENSORS)
    rewrite_tensors(saved, (saved / TENSORS).read_bytes())
    with pytest.raises(BundleError, match="not a safetensors file"):
        ModelBundle.load(saved)
    assert not (tmp_path / "exploded").exists()


def test_a_zip_bomb_is_refused_unopened(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(TENSORS, bytes(10**7))
    with pytest.raises(BundleError, match="is a file; a bundle is a folder"):
        ModelBundle.load(path)


@pytest.mark.parametrize("header", [2**63, 2**30, 2**21])
def test_a_huge_header_is_refused(saved: Path, header: int) -> None:
    rewrite_tensors(saved, header.to_bytes(8, "little") + bytes(2**22))
    with pytest.raises(BundleError, match=f"its header would take {header} bytes"):
        ModelBundle.load(saved)


def test_a_huge_manifest_is_refused_unread(saved: Path) -> None:
    with (saved / MANIFEST).open("wb") as file:
        file.truncate(5 * 2**20)
    with pytest.raises(BundleError, match="at most"):
        ModelBundle.load(saved)


def test_deeply_nested_json_is_refused(saved: Path) -> None:
    (saved / MANIFEST).write_text("[" * 500_000)
    with pytest.raises(BundleError, match="not JSON"):
        ModelBundle.load(saved)


def test_a_link_to_elsewhere_is_refused(saved: Path, tmp_path: Path) -> None:
    (saved / TENSORS).rename(tmp_path / "elsewhere")
    (saved / TENSORS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="not a plain file"):
        ModelBundle.load(saved)


def test_nan_weights_are_refused(saved: Path) -> None:
    tensors = load_file(saved / TENSORS)
    tensors["network.G.0.bias"][0] = torch.nan
    save_file(tensors, saved / TENSORS)
    rewrite_tensors(saved, (saved / TENSORS).read_bytes())
    with pytest.raises(BundleError, match=r"network\.G\.0\.bias holds NaN"):
        ModelBundle.load(saved)


def test_missing_and_extra_tensors_are_named(saved: Path) -> None:
    tensors = load_file(saved / TENSORS)
    tensors["network.spy"] = tensors.pop("network.G.0.bias")
    save_file(tensors, saved / TENSORS)
    rewrite_tensors(saved, (saved / TENSORS).read_bytes())
    with pytest.raises(BundleError, match=r"no tensor network\.G\.0\.bias; unexpected tensor network\.spy"):
        ModelBundle.load(saved)


def test_truncation_anywhere_is_refused(saved: Path) -> None:
    data = (saved / TENSORS).read_bytes()
    for length in (0, 4, 8, 100, len(data) // 2, len(data) - 1):
        (saved / TENSORS).write_bytes(data[:length])
        with pytest.raises(BundleError):
            ModelBundle.load(saved)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="does not exist; a bundle is a folder"):
        ModelBundle.load(tmp_path / "none")
    with pytest.raises(BundleError, match=r"manifest\.json: cannot be read"):
        ModelBundle.load(tmp_path)


@pytest.fixture
def saved_ensemble(tmp_path: Path) -> Path:
    return ensemble_bundle().save(tmp_path / "ensemble")


def test_an_ensemble_is_read_back_unchanged(saved_ensemble: Path) -> None:
    original, loaded = ensemble_bundle(), ModelBundle.load(saved_ensemble)
    assert loaded.manifest == original.manifest
    assert isinstance(loaded.known, KnownCheck)
    assert isinstance(original.known, KnownCheck)
    x = torch.randn(4, 2, 128, generator=torch.Generator().manual_seed(0))
    first, second = original.require_ensemble(), loaded.require_ensemble()
    assert torch.equal(first(x), second(x))
    for one, other in zip(original.known(first.extract(x)), loaded.known(second.extract(x)), strict=True):
        assert torch.equal(one, other)
    # Buffers are all there is: nothing that a method could train.
    assert not list(second.parameters())
    for (name, a), (other, b) in zip(first.named_buffers(), second.named_buffers(), strict=True):
        assert name == other
        assert torch.equal(a, b)


def test_an_ensemble_without_calibration_is_read_back_unchanged(tmp_path: Path) -> None:
    source = ensemble_bundle()
    plain = ModelBundle(replace(source.manifest, calibration=None, known=None), source.model, None)
    loaded = ModelBundle.load(plain.save(tmp_path / "model"))
    assert loaded.known is None
    assert loaded.manifest == plain.manifest


def test_a_manifest_lists_the_members(saved: Path, saved_ensemble: Path) -> None:
    assert "ensemble" not in json.loads((saved / MANIFEST).read_text())["model"]
    described = json.loads((saved_ensemble / MANIFEST).read_text())["model"]["ensemble"]
    assert described["features"][0] == {"kind": "spectrum", "frame": 32, "stretched": False}
    assert described["classifiers"] == ["logistic", "lda", "kernel", "trees"]


def test_networks_and_ensembles_are_kept_apart() -> None:
    network, ensemble = bundle(), ensemble_bundle()
    with pytest.raises(BundleError, match=r"is an ensemble, .*; train a network to adapt it, with objective 'cal'"):
        _ = ensemble.network
    with pytest.raises(BundleError, match="this bundle is an ensemble"):
        TentFull(ensemble)
    with pytest.raises(BundleError, match="this bundle is an ensemble"):
        ensemble.require_reference()
    with pytest.raises(BundleError, match="no calibration of a network"):
        ensemble.require_known()
    with pytest.raises(BundleError, match="no condition discriminator: it was trained with objective 'ensemble'"):
        ensemble.require_discriminator()
    with pytest.raises(BundleError, match="this bundle is a network; train an ensemble with objective 'ensemble'"):
        network.require_ensemble()


def test_both_kinds_of_models_know_the_scale_of_their_channels() -> None:
    for source in (bundle(), ensemble_bundle()):
        scaling = source.channel_scaling
        for name in ("mean", "deviation"):
            assert scaling.get_buffer(name).shape == (2, 1)


SPECTRUM = {"kind": "spectrum", "frame": 32, "stretched": False}


@pytest.mark.parametrize(
    ("ensemble", "message"),
    [
        ({"features": [{"kind": "wavelet", "frame": 32}]}, "features 'wavelet'; expected one of spectrum"),
        ({"features": [{"kind": "spectrum", "frame": 129}]}, "expected 4 to 128"),
        ({"features": [{"kind": "spectrum", "frame": -4}]}, "expected 4 to 128"),
        ({"features": []}, "at least one kind of features"),
        ({"features": [SPECTRUM, SPECTRUM]}, "are repeated"),
        ({"features": [{"kind": "spectrum", "frame": frame} for frame in range(4, 104)]}, "100 kinds of features"),
        ({"features": [SPECTRUM], "classifiers": ["os.system"]}, "classifiers os.system; expected some of"),
        ({"features": [SPECTRUM], "classifiers": ["kernel", "lda"]}, "in this order"),
        ({"features": [SPECTRUM], "weights": [1]}, r"ensemble\.weights: no such setting"),
        ({"features": [SPECTRUM]}, "does not fit its manifest"),
        ({"features": "spectrum"}, "features"),
        (7, "ensemble"),
    ],
)
def test_wrong_ensembles_are_refused(saved_ensemble: Path, ensemble: object, message: str) -> None:
    change_model(saved_ensemble, ensemble=ensemble)
    with pytest.raises(BundleError, match=message):
        ModelBundle.load(saved_ensemble)


def test_an_ensemble_without_its_description_is_no_network(saved_ensemble: Path) -> None:
    text = json.loads((saved_ensemble / MANIFEST).read_text())
    del text["model"]["ensemble"]
    change_manifest(saved_ensemble, model=text["model"])
    with pytest.raises(BundleError, match="does not fit its manifest"):
        ModelBundle.load(saved_ensemble)


def test_levels_of_other_channels_are_refused(saved_ensemble: Path) -> None:
    change_model(saved_ensemble, lowest_levels=[0.1])
    with pytest.raises(BundleError, match="1 lowest levels; expected one for each of 2"):
        ModelBundle.load(saved_ensemble)


def test_a_huge_ensemble_costs_no_memory_before_it_is_refused(saved_ensemble: Path) -> None:
    many = [f"{number:x}" for number in range(100_000)]
    change_model(saved_ensemble, channels=many, units=["g"] * len(many), lowest_levels=None)
    with pytest.raises(BundleError, match="more than 1,048,576 features are refused"):
        ModelBundle.load(saved_ensemble)
    cross = {"features": [{"kind": "cross_spectrum", "frame": 64}]}
    change_model(saved_ensemble, ensemble=cross)
    with pytest.raises(BundleError, match="more than 1,048,576 features are refused"):
        ModelBundle.load(saved_ensemble)


def test_an_ensemble_with_other_weights_is_refused(saved_ensemble: Path) -> None:
    tensors = load_file(saved_ensemble / TENSORS)
    tensors["network.pool"][0] = torch.inf
    save_file(tensors, saved_ensemble / TENSORS)
    rewrite_tensors(saved_ensemble, (saved_ensemble / TENSORS).read_bytes())
    with pytest.raises(BundleError, match=r"network\.pool holds NaN"):
        ModelBundle.load(saved_ensemble)
    tensors["network.pool"] = torch.ones(4)
    save_file(tensors, saved_ensemble / TENSORS)
    rewrite_tensors(saved_ensemble, (saved_ensemble / TENSORS).read_bytes())
    with pytest.raises(BundleError, match=r"network\.pool is torch\.float32 \(4,\), expected .*\(16,\)"):
        ModelBundle.load(saved_ensemble)


def test_moving_an_ensemble_moves_its_distance() -> None:
    source = ensemble_bundle()
    there = replace(source, model=deepcopy(source.model), known=deepcopy(source.known)).to("meta")
    assert there.known is not None
    assert all(buffer.device.type == "meta" for part in (there.model, there.known) for buffer in part.buffers())
