from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.dashboard.screenshots import CHROMIUM
from tests.service.running_service import RunningService, running_service


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser of the system, installed first if this user may do that."""
    if not Path(CHROMIUM).exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "chromium"], check=False, capture_output=True, timeout=600)  # noqa: S607 - Debian's
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium: the pages cannot be tested")
    return CHROMIUM


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service whose machine has an alarm."""
    with running_service(tmp_path_factory.mktemp("service")) as found:
        found.feed(40)
        yield found
