from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from cgsa.errors import DataError
from cgsa.service.dashboard.cache import DROP_AFTER, ValueCache


def test_simultaneous_requests_share_one_computation_in_a_thread() -> None:
    threads: list[threading.Thread] = []
    release = threading.Event()

    def compute() -> int:
        threads.append(threading.current_thread())
        release.wait(5)
        return len(threads)

    async def run() -> None:
        get = partial(ValueCache().get, "key", compute, 1.0)
        requests = [asyncio.create_task(get()) for _ in range(50)]
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*requests) == [1] * 50

    asyncio.run(run())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_a_value_is_computed_again_after_its_lifetime() -> None:
    now, count = 0.0, 0

    def compute() -> int:
        nonlocal count
        count += 1
        return count

    async def run() -> None:
        nonlocal now
        get = partial(ValueCache(lambda: now).get, "key", compute, 1.0)
        assert [await get(), await get()] == [1, 1]
        now = 0.99
        assert await get() == 1
        now = 1.0
        assert await get() == 2

    asyncio.run(run())


def test_a_cancelled_request_does_not_cancel_the_others() -> None:
    release = threading.Event()

    async def run() -> None:
        get = partial(ValueCache().get, "key", lambda: release.wait(5), 1.0)
        cancelled, other = asyncio.create_task(get()), asyncio.create_task(get())
        await asyncio.sleep(0)
        cancelled.cancel()
        release.set()
        assert await other
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(run())


def test_a_failure_is_raised_to_all_who_wait_and_not_kept() -> None:
    attempts = 0
    release = threading.Event()

    def compute() -> str:
        nonlocal attempts
        attempts += 1
        release.wait(5)
        if attempts == 1:
            raise DataError("disk not available")
        return "available"

    async def run() -> None:
        get = partial(ValueCache().get, "key", compute, 3600.0)
        requests = [asyncio.create_task(get()) for _ in range(3)]
        await asyncio.sleep(0)
        release.set()
        failures = await asyncio.gather(*requests, return_exceptions=True)
        assert [str(failure) for failure in failures] == 3 * ["disk not available"]
        assert [await get(), await get()] == ["available", "available"]

    asyncio.run(run())
    assert attempts == 2


def test_values_that_nobody_requests_are_dropped() -> None:
    now = 0.0

    async def run() -> None:
        nonlocal now
        cache = ValueCache(lambda: now)
        assert [await cache.get("a", lambda: 1), await cache.get("b", lambda: 2)] == [1, 2]
        now = DROP_AFTER / 2
        await cache.get("b", lambda: 2)
        now = DROP_AFTER + 1
        await cache.get("c", lambda: 3)
        assert len(cache) == 2

    asyncio.run(run())
