"""The report of a machine under watch over any period, from what the service has stored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from cgsa.errors import DataError
from cgsa.ledger.columns import LabelColumn
from cgsa.live.store import RowPage as StorePage
from cgsa.live.store import RowSelection, Snapshot, Snippet, StoredDiagnosis
from cgsa.metrics.accuracy import DoubleArray
from cgsa.report.figures import COLOURS, to_svg
from cgsa.report.page import HtmlPage

STRETCHES = 600
"""More than this are narrower than a line."""
MOST_NOTES = 200
MOST_LEDGER_ROWS = 2_000_000
SPECTRUM_LINES = 2000
CAPTION = (
    "From top to bottom: how likely the model finds health; the state that windows show, joined over time; the mean "
    "residual response, where the method has one; shares of windows that were learnt from and that were not believed; "
    "how far to trust it. Spans with an open case are shaded."
)

T = TypeVar("T")


@dataclass
class _Stretch:
    """What the batches of a stretch of time add up to."""

    windows: int = 0
    healthy: float = 0.0
    believed: int = 0
    learnt: int = 0
    flagged: int = 0
    response: float = 0.0
    responded: int = 0
    chance: float = 0.0
    covered: float = 0.0
    trusted: int = 0

    def add(self, told: StoredDiagnosis, healthy: str) -> None:
        """Count a batch in."""
        diagnosis, believed = told.diagnosis, told.diagnosis.windows - told.flagged
        self.windows += diagnosis.windows
        self.flagged += told.flagged
        self.learnt += diagnosis.accepted or 0
        if believed:
            self.believed += believed
            self.healthy += believed * diagnosis.probabilities.get(healthy, 0.0)
        if told.response is not None:
            self.response += believed * told.response
            self.responded += believed
        if diagnosis.trust is not None and diagnosis.trust.accuracy is not None:
            self.chance += believed * diagnosis.trust.accuracy
            self.covered += believed * (1.0 if diagnosis.trust.coverage is None else diagnosis.trust.coverage)
            self.trusted += believed


class PeriodCourse:
    """How a period went, added up from its batches one by one; a month needs no more memory than a minute.

    Parameters
    ----------
    begin, end
        Seconds since 1970.
    """

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.batches = 0
        self.seconds: dict[str, float] = {}
        """Of stream in each state."""
        self.totals = _Stretch()
        self.spans: list[tuple[float, float, str]] = []
        """State by state, neighbours joined."""
        self._stretches = [_Stretch() for _ in range(STRETCHES)]
        self._healthy: str | None = None

    def add(self, told: StoredDiagnosis) -> None:
        """Count a batch in; they come in the order of time."""
        diagnosis = told.diagnosis
        if self._healthy is None and diagnosis.probabilities:
            self._healthy = next(iter(diagnosis.probabilities))
        middle = (diagnosis.begin + diagnosis.end) / 2
        place = int((middle - self.begin) / (self.end - self.begin) * STRETCHES)
        for stretch in (self.totals, self._stretches[min(max(place, 0), STRETCHES - 1)]):
            stretch.add(told, self._healthy or "")
        state = diagnosis.state or diagnosis.verdict
        self.batches += 1
        self.seconds[state] = self.seconds.get(state, 0.0) + diagnosis.end - diagnosis.begin
        if self.spans and self.spans[-1][2] == state and diagnosis.begin - self.spans[-1][1] < 60.0:
            self.spans[-1] = (self.spans[-1][0], diagnosis.end, state)
        else:
            self.spans.append((diagnosis.begin, diagnosis.end, state))

    def curve(self, of: Callable[[_Stretch], float | None]) -> tuple[DoubleArray, DoubleArray]:
        """Return the middle of each stretch that has a value, and the values."""
        width = (self.end - self.begin) / STRETCHES
        found = [(self.begin + (n + 0.5) * width, of(s)) for n, s in enumerate(self._stretches) if s.windows]
        kept = [(time, value) for time, value in found if value is not None]
        return np.array([time for time, _ in kept]), np.array([value for _, value in kept])


def period_page(snapshot: Snapshot, machine: str, begin: float, end: float) -> HtmlPage:
    """Return a page on one machine between two times."""
    if not begin < end:
        raise DataError(f"a period from {_clock(begin)} to {_clock(end)}; expected one that ends after it begins")
    course = PeriodCourse(begin, end)
    for told in _all(lambda pick: snapshot.diagnoses(machine, pick), begin, end):
        course.add(told)
    ever = [found.case for found in _all(lambda pick: snapshot.cases(machine, pick=pick), -math.inf, math.inf)]
    cases = [case for case in ever if case.opened < end and (case.closed is None or case.closed >= begin)]
    page = HtmlPage(f"{machine}, {_clock(begin)} to {_clock(end)}")
    if not course.batches:
        page.text("Nothing was diagnosed in this period.")
    else:
        _summary(page, course)
    page.heading("Cases")
    if cases:
        header = ["case", "faults", "severity", "opened", "closed", "raised", "acknowledged by"]
        page.table(
            header,
            [
                [
                    f"{case.number}, {case.state}",
                    ", ".join(case.faults),
                    case.severity,
                    _clock(case.opened),
                    "" if case.closed is None else _clock(case.closed),
                    str(case.raised),
                    case.acknowledged_by or "nobody",
                ]
                for case in cases
            ],
        )
    else:
        page.text("No alarm was raised.")
    if course.batches:
        page.heading("The period over time")
        spans = [(case.opened, case.closed or end) for case in cases]
        page.figure(to_svg(course_figure(course, spans)), CAPTION)
        _reasons(page, snapshot, machine, begin, end)
    for snippet in _all(lambda pick: snapshot.snippets(machine, pick=pick), begin, end):
        page.heading(f"The signal at case {snippet.case}, {_clock(snippet.time)}")
        page.figure(to_svg(snippet_figure(snippet)), "Samples of every channel, and their spectrum.")
    _events(page, snapshot, machine, begin, end)
    return page


def course_figure(course: PeriodCourse, cases: Sequence[tuple[float, float]]) -> Figure:
    """Draw belief in health, states, response, learning and trust over one time axis."""
    # Names of classes come from outside: a dollar sign in one begins no formula.
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(10, 8.5), layout="constrained")
        axes = figure.subplots(5, 1, sharex=True, height_ratios=(2, 0.7, 1.5, 1.5, 1.5))
        _draw(axes[0], course, "probability\nof health", health=lambda s: _share(s.healthy, s.believed))
        _states(axes[1], course)
        _draw(axes[2], course, "residual\nresponse", response=lambda s: _share(s.response, s.responded))
        _draw(
            axes[3],
            course,
            "share of\nwindows",
            **{"learnt from": lambda s: s.learnt / s.windows, "not believed": lambda s: s.flagged / s.windows},
        )
        _draw(
            axes[4],
            course,
            "trust",
            **{
                "chance to be right": lambda s: _share(s.chance, s.trusted),
                "where training was": lambda s: _share(s.covered, s.trusted),
            },
        )
        for axis in axes:
            for opened, closed in cases:
                axis.axvspan(
                    _day(max(opened, course.begin)), _day(min(closed, course.end)), color="#e08e9a", alpha=0.25
                )
            axis.set_xlim(_day(course.begin), _day(course.end))
        locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
        axes[-1].xaxis.set_major_locator(locator)
        axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
        axes[-1].set_xlabel("UTC")
    return figure


def snippet_figure(snippet: Snippet) -> Figure:
    """Draw the samples of every channel and their spectra."""
    with rc_context({"text.parse_math": False}):
        count = len(snippet.channels)
        figure = Figure(figsize=(10, 1.2 + 1.1 * count), layout="constrained")
        axes = figure.subplots(count, 2, squeeze=False, sharex="col")
        time = np.arange(snippet.samples.shape[1]) / snippet.sample_rate
        for row, (name, samples) in enumerate(zip(snippet.channels, snippet.samples, strict=True)):
            known = np.nan_to_num(samples - np.nanmean(samples) if np.isfinite(samples).any() else samples)
            # A line a pixel is all that can be seen: of each few samples the largest and the smallest.
            few = max(1, len(known) // (2 * SPECTRUM_LINES))
            axes[row, 0].plot(time[::few], known[::few], linewidth=0.4, color=COLOURS[0])
            lines = np.abs(np.fft.rfft(known * np.hanning(len(known))))
            width = max(1, len(lines) // SPECTRUM_LINES)
            peaks = lines[: len(lines) // width * width].reshape(-1, width).max(axis=1)
            frequency = np.arange(len(peaks)) * width * snippet.sample_rate / len(known)
            axes[row, 1].semilogy(frequency, np.maximum(peaks, 1e-9), linewidth=0.5, color=COLOURS[1])
            axes[row, 0].set_ylabel(name, fontsize=7)
        axes[-1, 0].set_xlabel("s")
        axes[-1, 1].set_xlabel("Hz")
    return figure


def _summary(page: HtmlPage, course: PeriodCourse) -> None:
    totals, covered = course.totals, sum(course.seconds.values())
    page.text(
        f"{covered / 3600:.2f} h of signal were diagnosed in {course.batches:,} batches: {totals.windows:,} windows, "
        f"of which {totals.flagged:,} were not believed and {totals.learnt:,} were learnt from."
    )
    page.table(
        ["state", "share of the time", "hours"],
        [
            [state, f"{seconds / covered:.1%}", f"{seconds / 3600:.3f}"]
            for state, seconds in sorted(course.seconds.items(), key=lambda item: -item[1])
        ],
    )


def _reasons(page: HtmlPage, snapshot: Snapshot, machine: str, begin: float, end: float) -> None:
    """Tell why windows were learnt from or not, as far back as the ledger reaches."""
    columns = snapshot.ledger(machine, begin, end, limit=MOST_LEDGER_ROWS)
    reasons = columns.get("reason")
    if not isinstance(reasons, LabelColumn) or not len(reasons):
        return
    counts = Counter(dict(enumerate(np.bincount(reasons.codes, minlength=len(reasons.labels)).tolist())))
    page.heading("Why windows were learnt from, or not")
    page.table(
        ["reason", "windows", "share"],
        [
            [reasons.labels[code], f"{count:,}", f"{count / len(reasons):.1%}"]
            for code, count in counts.most_common()
            if count
        ],
    )


def _events(page: HtmlPage, snapshot: Snapshot, machine: str, begin: float, end: float) -> None:
    changes = list(_all(lambda pick: snapshot.changes(machine, pick=pick), begin, end))
    comments = list(_all(lambda pick: snapshot.comments(machine, pick=pick), begin, end))
    labels = list(_all(lambda pick: snapshot.labels(machine, pick=pick), begin, end))
    notes = snapshot.notes(machine, pick=RowSelection(begin, end, limit=MOST_NOTES)).rows
    rows = [(c.time, f"case {c.case.number} {c.change}", c.who or "", " ".join([c.fault, c.text])) for c in changes]
    rows += [(c.time, f"comment on case {c.case}", c.who, c.text) for c in comments]
    rows += [(label.time, "label", label.who, f"{label.state}, from {_clock(label.begin)}") for label in labels]
    rows += [(note.time, note.topic, "", note.text) for note in notes]
    if rows:
        page.heading("What happened")
        page.table(
            ["when", "what", "who", "words"], [[_clock(time), *words] for time, *words in sorted(rows, reverse=True)]
        )


def _draw(axis: Axes, course: PeriodCourse, label: str, **curves: Callable[[_Stretch], float | None]) -> None:
    for colour, (name, of) in zip(COLOURS, curves.items(), strict=False):
        time, values = course.curve(of)
        axis.plot([_day(moment) for moment in time], values, linewidth=1, color=colour, label=name)
    if len(curves) > 1:
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel(label)


def _states(axis: Axes, course: PeriodCourse) -> None:
    names = sorted({state for _, _, state in course.spans}, key=lambda name: -course.seconds[name])
    for place, name in enumerate(names):
        spans = [(_day(a), _day(b) - _day(a)) for a, b, state in course.spans if state == name]
        axis.broken_barh(spans, (place, 0.8), color=COLOURS[place % len(COLOURS)])
    axis.set_yticks([place + 0.4 for place in range(len(names))], labels=names, fontsize=7)


def _all(read: Callable[[RowSelection], StorePage[T]], begin: float, end: float) -> Iterator[T]:
    """Give all rows of a period, the oldest first, page by page."""
    after: str | None = None
    while True:
        page = read(RowSelection(begin, end, after=after, limit=1000, newest_first=False))
        yield from page.rows
        if not page.more:
            return
        after = page.cursor


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _day(time: float) -> float:
    """Return a time as matplotlib counts it: days since 1970."""
    return time / 86_400.0


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
