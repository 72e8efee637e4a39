from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from cgsa.service.errors import RefusedError
from cgsa.service.limits import RequestLimits
from cgsa.service.reads import MAX_QUEUED, ReadPool
from cgsa.service.rights import NotAllowedError
from tests.service.running_service import BINARY, MACHINE, block, running_service


def test_a_few_reads_run_at_a_time_and_fewer_of_one_token() -> None:
    async def go() -> tuple[int, int]:
        pool = ReadPool(RequestLimits(reads=3, token_reads=2))
        running: list[str] = []
        most = {"all": 0, "ann": 0}

        async def read(name: str) -> None:
            async with pool.slot(name):
                running.append(name)
                most["all"] = max(most["all"], len(running))
                most["ann"] = max(most["ann"], running.count("ann"))
                await asyncio.sleep(0.001)
                running.remove(name)

        await asyncio.gather(*(read(name) for name in ["ann"] * 10 + ["bob"] * 5 + ["cleo"] * 5))
        assert not pool._readers, "nothing is kept of those who have finished"
        return most["all"], most["ann"]

    assert asyncio.run(go()) == (3, 2)


def test_a_token_that_reads_too_long_has_to_wait() -> None:
    now = 0.0

    async def go() -> None:
        nonlocal now
        pool = ReadPool(RequestLimits(read_share=0.5, read_burst=10.0), clock=lambda: now)
        async with pool.slot("ann"):
            now = 20.0
        with pytest.raises(NotAllowedError, match="ann has used up its time for reading") as refused:
            async with pool.slot("ann"):
                raise AssertionError
        assert (refused.value.status, refused.value.retry_after) == (429, 20.0)
        async with pool.slot("bob"):
            now = 40.5
        async with pool.slot("ann"):
            pass

    asyncio.run(go())


def test_reads_that_cannot_begin_are_refused() -> None:
    async def go() -> list[int]:
        pool = ReadPool(RequestLimits(reads=1, token_reads=1, read_wait=0.05))
        statuses = []

        async def read() -> None:
            try:
                async with pool.slot("ann"):
                    await asyncio.sleep(0.3)
            except (RefusedError, NotAllowedError) as error:
                statuses.append(error.status)

        await asyncio.gather(*(read() for _ in range(MAX_QUEUED + 3)))
        return statuses

    assert asyncio.run(go()) == [429] * 3 + [503] * (MAX_QUEUED - 1)


def test_slow_reads_do_not_hold_up_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    with running_service(tmp_path) as service:
        service.feed(2)

        def slow(*_: object, **__: object) -> object:
            assert released.wait(20)
            raise RuntimeError("released")

        monkeypatch.setattr("cgsa.live.store.snapshot.Snapshot.diagnoses", slow)
        with service.client("viewer") as viewer, service.client("sender") as sender:

            def read() -> None:
                viewer.get("/api/diagnoses")

            # More than there are threads for requests.
            readers = [threading.Thread(target=read) for _ in range(60)]
            for reader in readers:
                reader.start()
            time.sleep(0.5)
            try:
                answer = sender.post("/api/blocks", content=block(2).to_bytes(), headers=BINARY, timeout=5)
                assert answer.status_code == 202
                assert sender.get(f"/api/machines/{MACHINE}/intake", timeout=5).json()["problem"] is None
            finally:
                released.set()
                for reader in readers:
                    reader.join()
