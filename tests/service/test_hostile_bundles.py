"""A model that means harm costs a refusal: nothing of it is run, and the service goes on as it was."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cgsa.errors import BundleError, CgsaError, ConfigError
from cgsa.live.plant import MachineConfig
from cgsa.nn.bundle import MANIFEST, TENSORS
from tests.machines import bundle
from tests.service.running_service import MACHINE, RunningService


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("exploded",))


def tensors(folder: Path, data: bytes) -> None:
    """Exchange the tensors, with a hash that fits."""
    (folder / TENSORS).write_bytes(data)
    about = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**about, "sha256": hashlib.sha256(data).hexdigest()}))


def a_pickle(folder: Path) -> None:
    tensors(folder, pickle.dumps(Bomb()))


def a_pickle_as_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(pickle.dumps(Bomb()))


def a_torch_archive(folder: Path) -> None:
    held = io.BytesIO()
    torch.save({"x": Bomb()}, held)
    tensors(folder, held.getvalue())


def a_zip_bomb(folder: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(TENSORS, bytes(10**8))
    tensors(folder, held.getvalue())


def a_huge_header(folder: Path) -> None:
    tensors(folder, (2**62).to_bytes(8, "little") + b"{}")


def offsets_beyond_the_end(folder: Path) -> None:
    header = json.dumps({"network.G.0.bias": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    tensors(folder, len(header).to_bytes(8, "little") + header)


def a_manifest_without_end(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)


def a_device_for_tensors(folder: Path) -> None:
    (folder / TENSORS).unlink()
    (folder / TENSORS).symlink_to("/dev/zero")


def a_hash_that_is_none(folder: Path) -> None:
    about = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**about, "sha256": {"__reduce__": "os.system"}}))


@pytest.mark.parametrize(
    "spoil",
    [
        a_pickle,
        a_pickle_as_manifest,
        a_torch_archive,
        a_zip_bomb,
        a_huge_header,
        offsets_beyond_the_end,
        a_manifest_without_end,
        a_device_for_tensors,
        a_hash_that_is_none,
    ],
)
def test_a_hostile_bundle_is_refused_and_never_run(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = bundle().save(tmp_path / "model")
    spoil(folder)
    with pytest.raises(BundleError):
        service.plant.add(MachineConfig("victim", folder, profile="paper"))
    assert not (tmp_path / "exploded").exists()
    assert not (service.plant.folder / "machines" / "victim").exists()
    assert list(service.plant.workers) == [MACHINE]


@pytest.mark.parametrize("name", ["../evil", "..", "/etc", "a/b", "", ".", "a\x00b", "a\n", "x" * 65, "ä"])
def test_no_machine_name_escapes_the_folder(service: RunningService, tmp_path: Path, name: str) -> None:
    folder = bundle().save(tmp_path / "model")
    with pytest.raises(ConfigError, match="expected 1 to 64 letters"):
        service.plant.add(MachineConfig(name, folder, profile="paper"))


def test_a_profile_cannot_be_a_path_to_code(service: RunningService, tmp_path: Path) -> None:
    folder = bundle().save(tmp_path / "model")
    (tmp_path / "evil.toml").write_text("x = 1")
    for profile in ("../../etc/passwd", str(tmp_path / "evil.toml"), "os.system"):
        with pytest.raises(CgsaError):
            service.plant.add(MachineConfig("victim", folder, profile=profile))
