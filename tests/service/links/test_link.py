from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.service.links.link import FIRST_DELAY, LONGEST_DELAY, Link, reason, supervise


class Staged(Link):
    """A link whose lives are told before: seconds that each is up, none where it never is; then the end."""

    def __init__(self, lives: Sequence[float | None]) -> None:
        self.now = 1000.0
        self.said: list[str] = []
        self.slept: list[float] = []
        self._lives = iter(lives)
        super().__init__("stage", "test", ("turns",), clock=lambda: self.now)

    async def connect(self) -> None:
        self.count(turns=1)
        try:
            up = next(self._lives)
        except StopIteration:
            return
        if up is not None:
            await self.came_up()
            self.now += up
        raise OSError(f"failure {self.status.counts['turns']}")

    async def report(self, text: str) -> None:
        self.said.append(text)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def run(self, chance: float = 0.0) -> None:
        asyncio.run(supervise(self, sleep=self.sleep, chance=lambda: chance))


def test_delays_double_up_to_the_longest() -> None:
    link = Staged([None] * 8)
    link.run()
    assert link.slept == [0.25, 0.5, 1, 2, 4, 8, 10, 10]


@given(st.lists(st.none() | st.floats(0, 100), max_size=30), st.floats(0, 1, exclude_max=True))
def test_delays_grow_while_flapping_and_restart_after_a_stable_time(lives: list[float | None], chance: float) -> None:
    link = Staged(lives)
    link.run(chance)
    expected, delay = [], FIRST_DELAY
    for up in lives:
        # A literal twin: only one that was up for long begins with the shortest again.
        if up is not None and 1000.0 + up - 1000.0 >= LONGEST_DELAY + 1e-6:
            delay = FIRST_DELAY
        elif up is not None and up >= LONGEST_DELAY - 1e-6:
            return  # too close to call in floating point
        expected.append(delay * (1 - chance / 2))
        delay = min(2 * delay, LONGEST_DELAY)
    assert link.slept == pytest.approx(expected)
    assert all(0 < seconds <= LONGEST_DELAY for seconds in link.slept)
    ups = sum(up is not None for up in lives)
    assert link.status.counts == {"turns": len(lives) + 1, "disconnects": ups, "reconnects": max(0, ups - 1)}
    assert link.status.state == "ended"


def test_up_and_down_are_reported_once_each() -> None:
    seen = []

    class Watched(Staged):
        async def sleep(self, seconds: float) -> None:
            seen.append(str(self.status))
            await super().sleep(seconds)

    link = Watched([20.0, None, None, 3.0])
    link.run()
    assert seen == [
        "stage: down since 1970-01-01 00:17:00 UTC because OSError: failure 1",
        "stage: down since 1970-01-01 00:17:00 UTC because OSError: failure 2",
        "stage: down since 1970-01-01 00:17:00 UTC because OSError: failure 3",
        "stage: down since 1970-01-01 00:17:04 UTC because OSError: failure 4",
    ]
    assert link.said == [
        "test stage is down: OSError: failure 1",
        "test stage is up again",
        "test stage is down: OSError: failure 4",
    ]


def test_cancelling_ends_it() -> None:
    class Endless(Staged):
        async def connect(self) -> None:
            await self.came_up()
            await asyncio.Event().wait()

    async def main() -> None:
        link = Endless([])
        task = asyncio.create_task(supervise(link))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert link.status.state == "up"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("no such machine"), "no such machine"),
        (OSError("gone\n  away"), "OSError: gone away"),
        (TimeoutError(), "no answer in time"),
        (DataError(), "DataError"),
        (ExceptionGroup("several", [ExceptionGroup("few", [ValueError("one")])]), "ValueError: one"),
    ],
)
def test_reasons_take_one_line(error: Exception, told: str) -> None:
    assert reason(error) == told
