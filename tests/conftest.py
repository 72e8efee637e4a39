from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Kernels of a GPU are interpreted; the compiler must know before anything loads it, and torch does.
os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from hypothesis import settings

from tests.postgres import PostgresServer, running_postgres
from tests.service.dashboard.screenshots import CHROMIUM

# The first call of many a function loads or compiles something; a deadline would only measure that.
settings.register_profile("cgsa", deadline=None, derandomize=True)
settings.load_profile("cgsa")

# Tests run in parallel; one thread each keeps them from fighting over the cores.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the whole session; each test takes a database of its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser of the system, installed first if this user may do that."""
    if not Path(CHROMIUM).exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "chromium"], check=False, capture_output=True, timeout=600)  # noqa: S607 - Debian's
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium: the pages cannot be tested")
    return CHROMIUM
