"""One progress bar over several steps of known weight, with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

PRIOR_SECONDS = 10.0
"""For how long the usual durations count as much as what was measured so far."""


class StepTimes:
    """Estimates the time left over steps whose usual durations in seconds are given."""

    def __init__(self, usual: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._usual, self._clock = dict(usual), clock
        self._started = clock()
        self._current: str | None = None
        self._share = 0.0
        self._finished: set[str] = set()

    @property
    def total(self) -> float:
        """Usual duration of all steps."""
        return sum(self._usual.values())

    @property
    def done(self) -> float:
        """Usual duration of what is done."""
        finished = sum(self._usual[name] for name in self._finished)
        return finished + (self._usual[self._current] * self._share if self._current else 0.0)

    @property
    def left(self) -> float:
        """Seconds left, at the pace of what was done so far."""
        pace = (self._clock() - self._started + PRIOR_SECONDS) / (self.done + PRIOR_SECONDS)
        return (self.total - self.done) * pace

    def begin(self, name: str) -> None:
        """Begin a step; the one before it is finished."""
        self.finish()
        self._current, self._share = name, 0.0

    def update(self, share: float) -> None:
        """Set how much of the current step is done, from 0 to 1; it never decreases."""
        self._share = max(self._share, min(1.0, share))

    def finish(self) -> None:
        """Finish the current step."""
        if self._current is not None:
            self._finished.add(self._current)
        self._current = None


def time_text(seconds: float) -> str:
    """Return a duration in words.

    >>> time_text(3.2), time_text(47), time_text(132)
    ('a few seconds', '50 s', '2 min 10 s')
    """
    tens = round(seconds / 10) * 10
    if tens < 10:
        return "a few seconds"
    return f"{tens} s" if tens < 60 else f"{tens // 60} min {tens % 60:02d} s"


class StepProgress:
    """Shows the steps on a console: a bar on a terminal, one line per step elsewhere."""

    def __init__(self, times: StepTimes, console: Console, bar: Progress) -> None:
        self._times, self._console, self._bar = times, console, bar
        self._task = bar.add_task("", total=times.total)

    def begin(self, name: str) -> None:
        """Begin a step."""
        self._times.begin(name)
        self._bar.update(self._task, description=name, completed=self._times.done)
        if not self._console.is_terminal:
            self._console.print(f"{name} ... about {time_text(self._times.left)} left", soft_wrap=True)

    def update(self, done: float, total: float) -> None:
        """Set how much of the current step is done."""
        self._times.update(done / max(total, 1))
        self._bar.update(self._task, completed=self._times.done)


@contextmanager
def step_progress(usual: Mapping[str, float], console: Console) -> Iterator[StepProgress]:
    """Show progress over steps with their usual durations in seconds."""
    times = StepTimes(usual)
    columns = (TextColumn("{task.description}"), BarColumn(), _TimeLeft(times))
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        yield StepProgress(times, console, bar)


class _TimeLeft(ProgressColumn):
    """The time that is left, at every moment."""

    def __init__(self, times: StepTimes) -> None:
        super().__init__()
        self._times = times

    def render(self, task: Task) -> Text:
        del task
        return Text(f"about {time_text(self._times.left)} left")
