"""Programs of the system that check what is shipped for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def program(name: str, package: str | None = None) -> str:
    """Return where a program is, installed from its Debian package where that is allowed; else skip the test."""
    for _ in range(2):
        found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if found is not None:
            return found
        apt = shutil.which("apt-get")
        if package is None or apt is None or os.geteuid() != 0:
            break
        words = [apt, "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", package]
        subprocess.run(words, check=False, capture_output=True)
    pytest.skip(f"no {name} here: what it checks is left out")


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """Run a program that must end well; return all that it says."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
