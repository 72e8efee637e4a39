from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from cgsa.service.file_handles import raise_handle_limit


@pytest.fixture(autouse=True)
def limits() -> Iterator[tuple[int, int]]:
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


def test_the_limit_is_raised_to_what_is_wanted(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    assert raise_handle_limit(300) == 300
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, limits[1])


def test_a_limit_that_is_high_enough_stays(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
    assert raise_handle_limit(300) == 300
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 512


def test_no_more_is_asked_for_than_the_system_allows(limits: tuple[int, int]) -> None:
    if limits[1] == resource.RLIM_INFINITY:
        pytest.skip("this system has no hard limit of file handles")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    assert raise_handle_limit(limits[1] + 1) == limits[1]


def test_a_sandbox_that_forbids_it_leaves_the_limit(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    true = resource.setrlimit

    def forbidden(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", forbidden)
        assert raise_handle_limit(300) == 256
    assert resource.setrlimit is true
