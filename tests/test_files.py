from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cgsa.errors import BundleError
from cgsa.files import replacing


def test_a_file_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    for text in ("old", "new"):
        with replacing(target, BundleError) as fresh:
            fresh.write_text(text)
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_folder_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for text in ("old", "new"):
        with replacing(target, BundleError) as fresh:
            fresh.mkdir()
            (fresh / text).write_text(text)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with (
        pytest.raises(BundleError, match=r"No space left on device.*untouched"),
        replacing(target, BundleError) as fresh,
    ):
        fresh.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interruption_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(target, BundleError) as fresh:
        fresh.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(BundleError, match="cannot be written"), replacing(blocker / "below", BundleError):
        pass
