"""Recordings in a folder, for tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from tests.machines import RATE

START = 1_700_000_000.0


def noise(samples: int, seed: int = 0, rate: float = RATE) -> Recording:
    signal = np.random.default_rng(seed).standard_normal((2, samples)).astype(np.float32)
    return Recording(signal, rate, ("a", "b"), ("g", "g"), source=f"noise {seed}")


def drop(folder: Path, name: str, samples: int = 500, seed: int = 0, modified: float | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(noise(samples, seed), path)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path
