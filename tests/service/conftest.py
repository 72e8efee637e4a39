from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.living import Living, living


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A service whose machine has an alarm."""
    with living(tmp_path_factory.mktemp("service")) as found:
        found.feed(40)
        yield found
