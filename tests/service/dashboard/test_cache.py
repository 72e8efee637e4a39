from __future__ import annotations

import asyncio
import threading

import pytest

from cgsa.errors import DataError
from cgsa.service.dashboard.cache import FORGOTTEN_AFTER, CachedValue, ValueCache


def test_many_who_ask_at_once_get_one_value_made_in_a_thread() -> None:
    made: list[threading.Thread] = []
    release = threading.Event()

    def make() -> int:
        made.append(threading.current_thread())
        release.wait(5)
        return len(made)

    async def run() -> None:
        shared = CachedValue(make, 1.0)
        asked = [asyncio.create_task(shared.get()) for _ in range(50)]
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*asked) == [1] * 50

    asyncio.run(run())
    assert len(made) == 1
    assert made[0] is not threading.main_thread()


def test_a_value_is_made_anew_when_it_is_too_old() -> None:
    now, made = 0.0, 0

    def make() -> int:
        nonlocal made
        made += 1
        return made

    async def run() -> None:
        nonlocal now
        shared = CachedValue(make, 1.0, lambda: now)
        assert [await shared.get(), await shared.get()] == [1, 1]
        now = 0.99
        assert await shared.get() == 1
        now = 1.0
        assert await shared.get() == 2

    asyncio.run(run())


def test_who_leaves_takes_nothing_from_the_others() -> None:
    release = threading.Event()

    async def run() -> None:
        shared = CachedValue(lambda: release.wait(5), 1.0)
        leaving, staying = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
        await asyncio.sleep(0)
        leaving.cancel()
        release.set()
        assert await staying
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(run())


def test_a_failure_is_told_to_all_and_tried_again() -> None:
    now, fails = 0.0, True

    def make() -> str:
        if fails:
            raise DataError("the disk is away")
        return "there"

    async def run() -> None:
        nonlocal now, fails
        shared = CachedValue(make, 1.0, lambda: now)
        for _ in range(2):
            with pytest.raises(DataError, match="away"):
                await shared.get()
        now, fails = 2.0, False
        assert await shared.get() == "there"

    asyncio.run(run())


def test_a_shelf_drops_what_nobody_asks_for() -> None:
    now = 0.0

    async def run() -> None:
        nonlocal now
        shelf = ValueCache(lambda: now)
        assert [await shelf.get("a", lambda: 1), await shelf.get("b", lambda: 2)] == [1, 2]
        now = FORGOTTEN_AFTER / 2
        await shelf.get("b", lambda: 2)
        now = FORGOTTEN_AFTER + 1
        await shelf.get("c", lambda: 3)
        assert len(shelf) == 2

    asyncio.run(run())
