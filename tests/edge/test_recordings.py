from __future__ import annotations

import io
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cgsa.edge.package import export_package
from cgsa.edge.runner.command import run
from cgsa.edge.runner.package import EdgeError, EdgePackage
from cgsa.edge.runner.recordings import read_blocks
from tests.edge.exported import settings_of
from tests.machines import RATE, bundle

SAMPLES = np.random.default_rng(0).integers(-30000, 30000, (2, 500)).astype(np.int16)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> EdgePackage:
    folder = tmp_path_factory.mktemp("package") / "edge"
    export_package(bundle(), settings_of(bundle()), folder)
    return EdgePackage(folder)


def _csv(path: Path, delimiter: str = ",") -> None:
    rows = np.stack([np.arange(500), SAMPLES[1], SAMPLES[0]], axis=1)
    lines = [delimiter.join(f"{value / 2:.1f}" for value in row) for row in rows]
    text = "\n".join([delimiter.join(["time", "b", "a"]), *lines])
    path.write_text(text.replace(".", ",") if delimiter == ";" else text, encoding="utf-8")


def _wav(path: Path, width: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(int(RATE))
        wide = np.ascontiguousarray(SAMPLES.T.astype("<i4") << 16).view(np.uint8).reshape(-1, 4)
        file.writeframes(wide[:, 4 - width :].tobytes())


WRITERS: dict[str, tuple[Callable[[Path], None], float]] = {
    "comma.csv": (_csv, 2.0),
    "semicolon.csv": (lambda path: _csv(path, ";"), 2.0),
    "tab.csv": (lambda path: _csv(path, "\t"), 2.0),
    "table.npy": (lambda path: np.save(path, SAMPLES), 1.0),
    "upright.npy": (lambda path: np.save(path, SAMPLES.T.astype(np.float64)), 1.0),
    "scaled.npz": (lambda path: np.savez(path, x=SAMPLES.T, scale=np.array([0.5, 0.5], dtype=np.float32)), 2.0),
    "named.npz": (lambda path: np.savez(path, b=SAMPLES[1], a=SAMPLES[0], time=np.arange(3)), 1.0),
    "short.wav": (lambda path: _wav(path, 2), 2.0**15),
    "long.wav": (lambda path: _wav(path, 4), 2.0**15),
    "medium.wav": (lambda path: _wav(path, 3), 2.0**15),
}
"""Files with the samples, and the factor that gives them back."""


@pytest.mark.parametrize("name", list(WRITERS))
def test_files_of_every_format_hold_the_samples(name: str, package: EdgePackage, tmp_path: Path) -> None:
    write, scale = WRITERS[name]
    write(tmp_path / name)
    found = np.concatenate(list(read_blocks(str(tmp_path / name), package, scale=scale)), axis=1)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, SAMPLES)


def test_raw_samples_come_from_standard_input(package: EdgePackage) -> None:
    content = SAMPLES.T.astype("<f4").tobytes()
    found = list(read_blocks("-", package, stream=io.BytesIO(content), scale=2.0))
    np.testing.assert_array_equal(np.concatenate(found, axis=1), 2.0 * SAMPLES)
    with pytest.raises(EdgeError, match="3 bytes at the end of the input; expected 4 per channel and sample"):
        list(read_blocks("-", package, stream=io.BytesIO(content[:3])))


def _bad_header(path: Path) -> None:
    path.write_text("time,a\n0,1\n")


def _bad_number(path: Path) -> None:
    path.write_text("a,b\n0,1\n0,x\n")


def _other_rate(path: Path) -> None:
    _wav(path, 2)
    content = bytearray(path.read_bytes())
    content[24:28] = (8000).to_bytes(4, "little")
    path.write_bytes(bytes(content))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing.csv": (lambda _: None, "cannot read it"),
    "empty.csv": (lambda path: path.write_text(""), "no column 'a'"),
    "header.csv": (_bad_header, "no column 'b'; it has time, a"),
    "number.csv": (_bad_number, "cannot read it"),
    "other.xyz": (lambda path: path.write_text("x"), "unknown format; expected .csv, .npy, .npz, .wav, or -"),
    "three.npy": (lambda path: np.save(path, np.zeros((3, 9))), r"shape \(3, 9\); expected 2 channels"),
    "text.npy": (lambda path: np.save(path, np.array([["a", "b"]])), "array of <U1"),
    "object.npy": (lambda path: np.save(path, np.array([{}, {}]), allow_pickle=True), "cannot read it"),
    "damaged.npz": (lambda path: path.write_bytes(b"PK\x03\x04 damaged"), "cannot read it"),
    "several.npz": (lambda path: np.savez(path, x=SAMPLES, y=SAMPLES), "arrays x, y; expected a, b, or a single table"),
    "rate.wav": (_other_rate, "8000 Hz; the model was trained at 1000 Hz"),
    "byte.wav": (lambda path: _wav(path, 1), "8 bits per sample; expected 16, 24 or 32"),
    "damaged.wav": (lambda path: path.write_bytes(b"RIFF"), "cannot read it"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_other_files_are_refused_with_a_reason(name: str, package: EdgePackage, tmp_path: Path) -> None:
    write, message = REFUSED[name]
    write(tmp_path / name)
    with pytest.raises(EdgeError, match=message):
        list(read_blocks(str(tmp_path / name), package))


def test_the_command_prints_one_line_per_state(
    package: EdgePackage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del package
    folder = tmp_path / "edge"
    export_package(bundle(), settings_of(bundle()), folder)
    np.save(tmp_path / "noise.npy", SAMPLES / 30000.0)
    assert run([str(tmp_path / "noise.npy"), "--package", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("noise.npy  ") for line in lines)
    assert run([str(tmp_path / "missing.npy"), "--package", str(folder)]) == 1
    assert "missing.npy: cannot read it" in capsys.readouterr().err
