"""Recordings of every real set, written in every format, come back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from tests.data.readers.test_every_format import assert_as_written, read_back
from tests.data.readers.writers import FORMATS

DATA = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[3] / "../shared/data"))
UNITS = {
    "bldc_iq": "counts",
    "current_motor": "A",
    "kat_units": "g",
    "limerick_motor": "V",
    "phone_motor2": "m/s^2",
    "spectraquest_gearbox": "g",
}
ASSUMED_RATE = 12_900
"""Of the set that states none."""
SAMPLES = 5000
WHOLE_RATES = {"wav", "flac"}
"""Formats whose rates are whole numbers."""


def real_recordings(name: str) -> Iterator[Recording]:
    """Yield the first file of every class."""
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"no recordings in {folder}; set CGSA_DATA to the folder that holds {name}")
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    first = {entry["file"].partition("__")[0]: entry["file"] for entry in reversed(meta["files"])}
    for file in first.values():
        with np.load(folder / file) as stored:
            signal = (stored["x"][:SAMPLES] * stored.get("scale", 1.0)).astype(np.float32).T
        channels = tuple(meta["channels"])
        yield Recording(signal, float(meta["fs"] or ASSUMED_RATE), channels, (UNITS[name],) * len(channels))


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_real_set_comes_back(tmp_path: Path, name: str, kind: str) -> None:
    written = FORMATS[kind]
    for place, original in enumerate(real_recordings(name)):
        recording = replace(original, sample_rate=round(original.sample_rate)) if kind in WHOLE_RATES else original
        path = tmp_path / f"{place}{written.suffix}"
        written.write(recording, path)

        assert_as_written(written, read_back(written, path, recording), recording)


def test_an_excerpt_is_read_as_it_is() -> None:
    path = DATA / "mcc5_thu_excerpts" / "gearbox_fault_snippet.npy"
    if not path.exists():
        pytest.skip(f"no {path}; set CGSA_DATA to the folder that holds mcc5_thu_excerpts")
    stored = np.load(path)

    read = read_recording(path, sample_rate=12_800, units="g")

    np.testing.assert_array_equal(np.sort(read.signal, axis=None), np.sort(stored.astype(np.float32), axis=None))
