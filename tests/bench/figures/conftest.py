from __future__ import annotations

import pytest

from cgsa.bench.figures import Drawing, all_drawings
from tests.bench.figures.made_records import RECORDS


@pytest.fixture(scope="package")
def drawings() -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in all_drawings(RECORDS)}
