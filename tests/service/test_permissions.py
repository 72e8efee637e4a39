from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.service.permissions import create_private_folder, open_to_others, private_files


def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "plant"
    create_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert open_to_others([folder]) == []
    folder.chmod(0o755)
    create_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "what people chose is not changed behind their backs"
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be created"):
        create_private_folder(tmp_path / "file" / "plant")


def test_files_are_created_for_their_owner_alone(tmp_path: Path) -> None:
    with private_files():
        (tmp_path / "inside").touch()
    (tmp_path / "outside").touch()
    assert stat.S_IMODE((tmp_path / "inside").stat().st_mode) == 0o600
    assert open_to_others([tmp_path / "outside"]), "as the process creates them otherwise"


def test_files_that_others_may_use_are_named(tmp_path: Path) -> None:
    key, secret = tmp_path / "tls.key", tmp_path / "password"
    key.touch(mode=0o600)
    secret.touch()
    secret.chmod(0o640)
    assert open_to_others([key, secret, tmp_path / "missing"]) == [
        f"{secret}: others than its owner may use it (mode 0640); expected 0600: chmod 600 {secret}"
    ]
