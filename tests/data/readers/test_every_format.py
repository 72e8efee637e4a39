from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers import open_signal, read_recording
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.data.readers.writers import FORMATS, Written


def example(samples: int = 3000) -> Recording:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(3, samples)).astype(np.float32)
    return Recording(signal, 12_800.0, ("ax", "current", "speed"), ("g", "A", "rpm"))


def read_back(written: Written, path: Path, original: Recording) -> Recording:
    """Read a file, and add what its format does not state."""
    return read_recording(
        path,
        sample_rate=None if written.states_rate else original.sample_rate,
        channels=None if written.states_names else original.channels,
        units=None if written.states_units else original.units,
    )


def assert_as_written(written: Written, read: Recording, original: Recording) -> None:
    assert read.channels == original.channels
    assert read.units == original.units
    assert read.sample_rate == original.sample_rate
    largest = np.abs(original.signal).max()
    signal = read.signal * largest if written.full_scale else read.signal
    if written.tolerance:
        np.testing.assert_allclose(signal, original.signal, rtol=0, atol=written.tolerance * float(largest) * 1.01)
    else:
        np.testing.assert_array_equal(signal, original.signal)


@pytest.mark.parametrize("name", FORMATS)
def test_a_recording_comes_back(tmp_path: Path, name: str) -> None:
    written, path = FORMATS[name], tmp_path / f"a{FORMATS[name].suffix}"
    written.write(example(), path)

    assert_as_written(written, read_back(written, path, example()), example())


@pytest.mark.parametrize("name", FORMATS)
def test_the_content_decides_where_the_name_does_not(tmp_path: Path, name: str) -> None:
    written, path = FORMATS[name], tmp_path / f"a{FORMATS[name].suffix}"
    written.write(example(), path)
    path.rename(tmp_path / "recording")

    assert_as_written(written, read_back(written, tmp_path / "recording", example()), example())


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_any_size_hold_the_same_samples(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"a{FORMATS[name].suffix}"
    FORMATS[name].write(example(), path)
    file = open_signal(path)

    for size in (7, 1000, 1_000_000):
        blocks = list(file.blocks(size))
        assert max(block.shape[1] for block in blocks) <= size
        np.testing.assert_array_equal(np.concatenate(blocks, axis=1), file.signal())


@pytest.mark.parametrize("name", FORMATS)
def test_a_truncated_file_is_refused_or_shorter(tmp_path: Path, name: str) -> None:
    written, path = FORMATS[name], tmp_path / f"a{FORMATS[name].suffix}"
    written.write(example(), path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole)) | 1])

        with pytest.raises(DataError, match=str(path)):
            read_back(written, path, example())
