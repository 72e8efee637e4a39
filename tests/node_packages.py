"""Packages of npm that tests use: fetched once, and kept for later runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def node_package(name: str, left_out: str) -> Path:
    """Return a folder with a package and what it needs; skip, and say what is left out, where npm cannot fetch it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "cgsa-tests" / name
    if folder.exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"no npm: {left_out}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        words = [npm, "install", "--prefix", fresh, "--no-audit", "--no-fund", "--ignore-scripts", name]
        done = subprocess.run(words, check=False, capture_output=True, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install {name}: {left_out}")
        complete = Path(fresh, "complete")
        complete.mkdir()
        Path(fresh, "node_modules").rename(complete / "node_modules")
        # Renamed when complete; of several test processes, one is first.
        if not folder.exists():
            complete.rename(folder)
    return folder
