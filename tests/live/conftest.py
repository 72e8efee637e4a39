from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cgsa.live.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened
