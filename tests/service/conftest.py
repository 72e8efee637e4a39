from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.running_service import RunningService, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service whose machine has an alarm."""
    with running_service(tmp_path_factory.mktemp("service")) as found:
        found.feed(40)
        yield found
