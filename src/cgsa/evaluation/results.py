"""What an evaluation found, stream by stream, and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from cgsa.data.dataset_selection import natural_order
from cgsa.metrics.reliability import Reliability
from cgsa.nn.assessment import LEVEL, Counts, HeldOutResult, JoinedResult, halves

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class StreamResult:
    """The diagnosis of one recording, after the healthy machine if it is one of a fault."""

    recording: str
    """Name of the judged recording."""
    before: str | None
    """Name of the healthy recording before it."""
    point: str
    """Operating condition in words."""
    truth: str
    """Class of the judged recording."""
    label: int
    """The class that the model should name."""
    trained: bool
    """Whether the model was trained on a part of the judged recording."""
    windows: tuple[int, ...]
    """Number of windows of the judged recording by diagnosed class."""
    verdicts: tuple[int, ...]
    """The same by joined state; one beyond the classes is unknown."""
    reliability: Reliability
    seconds: float
    """Length of the judged recording."""
    alarm: str | None
    """Fault that the alarm reported at the end; None without an alarm."""
    delay: float | None = None
    """Seconds from the onset to the alarm; None if there was none, or no fault."""
    named_delay: float | None = None
    """Seconds from the onset to an alarm that names the fault."""
    false_alarms: int = 0
    """Alarms that began in a healthy recording; those before a fault count in the healthy one's own stream."""

    @property
    def healthy(self) -> bool:
        """Whether the judged recording is healthy."""
        return self.label == 0

    @property
    def accuracy(self) -> float:
        """Share of right windows."""
        return self.windows[self.label] / sum(self.windows)

    @property
    def verdict_accuracy(self) -> float:
        """Share of windows with the right verdict."""
        return self.verdicts[self.label] / sum(self.verdicts)


@dataclass(frozen=True)
class StreamGroup:
    """Results of some streams together, such as those at one operating condition."""

    name: str
    streams: tuple[StreamResult, ...]

    @property
    def faults(self) -> list[StreamResult]:
        """Streams with a fault."""
        return [one for one in self.streams if not one.healthy]

    @property
    def confusion(self) -> Counts:
        """Single windows by class and diagnosed class."""
        return _summed([(one.label, one.windows) for one in self.streams], len(self.streams[0].windows))

    @property
    def verdicts(self) -> Counts:
        """Single windows by class and joined state."""
        return _summed([(one.label, one.verdicts) for one in self.streams], len(self.streams[0].windows))

    @property
    def accuracy(self) -> float | None:
        """Accuracy of single windows, healthy and faulty ones half each; of all alike if one of them is missing."""
        return _accuracy(self.confusion)

    @property
    def verdict_accuracy(self) -> float | None:
        """The same of joined verdicts."""
        return _accuracy(self.verdicts)

    @property
    def alarms(self) -> int:
        """Number of faults that raised an alarm."""
        return sum(one.delay is not None for one in self.faults)

    @property
    def named_alarms(self) -> int:
        """Number of faults whose alarm named them."""
        return sum(one.named_delay is not None for one in self.faults)

    @property
    def delay(self) -> float | None:
        """Median seconds from the onset to the alarm; None without an alarm."""
        known = [one.delay for one in self.faults if one.delay is not None]
        return median(known) if known else None

    @property
    def false_alarms(self) -> int:
        """Number of alarms on the healthy machine."""
        return sum(one.false_alarms for one in self.streams)

    @property
    def healthy_hours(self) -> float:
        """Length of the healthy recordings."""
        return sum(one.seconds for one in self.streams if one.healthy) / SECONDS_PER_HOUR

    @property
    def false_alarms_per_hour(self) -> float | None:
        """Rate of false alarms; None without a healthy recording."""
        return self.false_alarms / self.healthy_hours if self.healthy_hours else None

    @property
    def reliability(self) -> Reliability:
        """Windows by their probability."""
        return Reliability.total(one.reliability for one in self.streams)

    def as_part(self) -> HeldOutResult:
        """Return the same as a model's card has it."""
        joined = JoinedResult(
            self.verdicts,
            tuple(one.delay for one in self.faults),
            self.false_alarms,
            self.healthy_hours * SECONDS_PER_HOUR,
            fmean([one.seconds for one in self.faults] or [0.0]),
        )
        return HeldOutResult(LEVEL, self.name, self.confusion, joined=joined)

    def by_point(self) -> list[StreamGroup]:
        """Return the groups of the operating conditions, in their order."""
        return sorted(_groups((one.point, one) for one in self.streams), key=lambda one: natural_order(one.name))

    def by_class(self) -> list[StreamGroup]:
        """Return the groups of the classes."""
        return _groups((one.truth, one) for one in self.streams)


@dataclass(frozen=True)
class Evaluation:
    """The results of a model on a data set."""

    model: str
    data: str
    method: str
    classes: tuple[str, ...]
    """Classes that the model can name, the healthy one first."""
    states: tuple[str, ...]
    """The same and, if the model knows it, unknown."""
    streams: tuple[StreamResult, ...]
    left_out: bool = False
    """Whether every stream was diagnosed by a model that was trained without its condition."""
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> list[StreamGroup]:
        """Streams that the model was not trained on first, then those that it was; only groups that have any."""
        new = tuple(one for one in self.streams if not one.trained)
        known = tuple(one for one in self.streams if one.trained)
        named = {NEW: new, TRAINED: known}
        return [StreamGroup(name, streams) for name, streams in named.items() if streams]


NEW = "not trained on"
TRAINED = "trained on"


def _summed(rows: Iterable[tuple[int, Sequence[int]]], classes: int) -> Counts:
    found = list(rows)
    width = len(found[0][1])
    table = [[0] * width for _ in range(classes)]
    for label, counts in found:
        table[label] = [a + b for a, b in zip(table[label], counts, strict=True)]
    return tuple(map(tuple, table))


def _accuracy(counts: Counts) -> float | None:
    found = halves(counts)
    if found is not None:
        return found
    known = [row[label] / sum(row) for label, row in enumerate(counts) if sum(row)]
    return fmean(known) if known else None


def _groups(pairs: Iterable[tuple[str, StreamResult]]) -> list[StreamGroup]:
    found: dict[str, list[StreamResult]] = {}
    for name, one in pairs:
        found.setdefault(name, []).append(one)
    return [StreamGroup(name, tuple(streams)) for name, streams in found.items()]
