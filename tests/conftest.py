from __future__ import annotations

import os
from collections.abc import Iterator

# Kernels of a GPU are interpreted; the compiler must know before anything loads it, and torch does.
os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from hypothesis import settings

from tests.postgres import PostgresServer, running_postgres

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
