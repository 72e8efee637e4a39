from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cgsa.service.auth import Role
from cgsa.service.login import login_link
from tests.service.dashboard.pictures import CHROMIUM


@dataclass(frozen=True)
class Stage:
    """A service that runs, in a process of its own."""

    address: str
    tokens: dict[str, str]

    def login(self, role: Role) -> str:
        return login_link(self.address, self.tokens[role])


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser of the system, installed where that may be done."""
    if not Path(CHROMIUM).exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "chromium"], check=False, capture_output=True, timeout=600)  # noqa: S607 - Debian's
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium: pages are not looked at")
    return CHROMIUM


@pytest.fixture(scope="session")
def stage(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Five toy machines to look at."""
    folder = tmp_path_factory.mktemp("stage")
    command = [sys.executable, "-m", "tests.service.dashboard.stage", str(folder)]
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told, (folder / "errors").read_text()
            yield Stage(**json.loads(told))
        finally:
            process.terminate()
            process.communicate(timeout=30)
    said = (folder / "errors").read_text()
    assert "Traceback" not in said, said
