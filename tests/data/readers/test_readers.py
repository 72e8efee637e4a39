from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers import READERS, Reader, read_recording
from cgsa.data.recording import Recording
from cgsa.errors import DataError


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    with pytest.raises(DataError, match=re.escape(f"{path}: no such file")):
        read_recording(path)


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder; expected a file"):
        read_recording(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a"])
def test_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    with pytest.raises(DataError, match=rf"{name} is empty \(0 bytes\)"):
        read_recording(str(tmp_path / name))


def test_unknown_format_lists_the_supported_ones(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2\3")

    with pytest.raises(
        DataError, match="unknown format; supported: csv, flac, hdf5, mat, mdf4, npy, npz, parquet, tdms, uff58, wav"
    ):
        read_recording(tmp_path / "a.bin")


def test_content_must_match_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("speed,torque\n")

    with pytest.raises(DataError, match="named as parquet, but its content is not"):
        read_recording(tmp_path / "a.parquet")


def test_a_reader_of_another_package_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Recording:
        return Recording(np.load(path), 100.0, ("x",), ("g",), source=str(path))

    npy = Reader(suffixes=(".npy",), accepts=lambda head: head.startswith(b"\x93NUMPY"), read=read)
    monkeypatch.setitem(READERS._loaded, "npy", npy)
    np.save(tmp_path / "a.npy", np.ones((1, 5), np.float32))

    assert read_recording(tmp_path / "a.npy").samples == 5
