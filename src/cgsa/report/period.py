"""The report of a machine over a period, from the store of the service."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

from cgsa.errors import DataError
from cgsa.events import Case
from cgsa.ledger.columns import LabelColumn, stands_for
from cgsa.live.plant import ExplainConfig
from cgsa.live.store import RowPage, RowSelection, Snapshot, Snippet
from cgsa.report.alarm_explanation import explain_snippet
from cgsa.report.figures import to_svg
from cgsa.report.page import HtmlPage, render_page
from cgsa.report.period_figures import PERIOD_CAPTION, SNIPPET_CAPTION, period_figure, snippet_figure
from cgsa.report.period_timeline import PeriodTimeline

MAX_NOTES = 200
MAX_LEDGER_ROWS = 2_000_000

T = TypeVar("T")


def period_page(
    snapshot: Snapshot, machine: str, begin: float, end: float, *, explain: ExplainConfig | None = None
) -> HtmlPage:
    """Return a page on one machine between two times; with ``explain`` it says what stands out around each alarm."""
    if not begin < end:
        raise DataError(f"a period from {_utc(begin)} to {_utc(end)}; expected one that ends after it begins")
    timeline = PeriodTimeline(begin, end)
    for stored in _all_rows(lambda selection: snapshot.diagnoses(machine, selection), begin, end):
        timeline.add(stored)
    stored_cases = _all_rows(lambda selection: snapshot.cases(machine, pick=selection), -math.inf, math.inf)
    cases = [
        found.case
        for found in stored_cases
        if found.case.opened < end and (found.case.closed is None or found.case.closed >= begin)
    ]
    spans = [(case.opened, case.closed or end) for case in cases]
    return render_page(
        "period.html",
        title=f"{machine}, {_utc(begin)} to {_utc(end)}",
        summary=_summary(timeline),
        states=_state_rows(timeline),
        cases=list(map(_case_row, cases)),
        timeline=to_svg(period_figure(timeline, spans)) if timeline.batches else "",
        timeline_caption=PERIOD_CAPTION,
        reasons=_reason_rows(snapshot, machine, begin, end) if timeline.batches else [],
        snippets=[
            (
                f"The signal at case {snippet.case}, {_utc(snippet.time)}",
                to_svg(snippet_figure(snippet)),
                _explanation(snippet, explain),
            )
            for snippet in _all_rows(lambda selection: snapshot.snippets(machine, pick=selection), begin, end)
        ],
        snippet_caption=SNIPPET_CAPTION,
        events=_event_rows(snapshot, machine, begin, end),
    )


def _explanation(snippet: Snippet, explain: ExplainConfig | None) -> list[str]:
    if explain is None:
        return []
    found = explain_snippet(snippet, explain, {})
    return [*found.sentences, *(f"Note: {note}" for note in found.notes)]


def _summary(timeline: PeriodTimeline) -> str:
    """Return the amounts of signal and windows in one sentence; empty if nothing was diagnosed."""
    if not timeline.batches:
        return ""
    hours = sum(timeline.seconds.values()) / 3600
    windows, flagged, accepted = map(timeline.total, ("windows", "flagged", "accepted"))
    return (
        f"{hours:.2f} h of signal were diagnosed in {timeline.batches:,} batches: {windows:,} windows, of which "
        f"{flagged:,} were rejected by the quality gate or at standstill, and {accepted:,} were used for adaptation."
    )


def _state_rows(timeline: PeriodTimeline) -> list[Sequence[str]]:
    covered = sum(timeline.seconds.values())
    return [
        (state, f"{seconds / covered:.1%}", f"{seconds / 3600:.3f}")
        for state, seconds in sorted(timeline.seconds.items(), key=lambda item: -item[1])
    ]


def _case_row(case: Case) -> Sequence[str]:
    return (
        f"{case.number}, {case.state}",
        ", ".join(case.faults),
        case.severity,
        _utc(case.opened),
        "" if case.closed is None else _utc(case.closed),
        str(case.raised),
        case.acknowledged_by or "nobody",
    )


def _reason_rows(snapshot: Snapshot, machine: str, begin: float, end: float) -> list[Sequence[str]]:
    """Return how many windows were accepted or rejected for each reason, as far back as the ledger reaches."""
    columns = snapshot.ledger(machine, begin, end, limit=MAX_LEDGER_ROWS)
    reasons = columns.get("reason")
    if not isinstance(reasons, LabelColumn):
        return []
    windows = np.bincount(reasons.codes, weights=stands_for(columns), minlength=len(reasons.labels))
    counts = Counter(dict(enumerate(windows.astype(np.int64).tolist())))
    return [
        (reasons.labels[code], f"{count:,}", f"{count / windows.sum():.1%}")
        for code, count in counts.most_common()
        if count
    ]


def _event_rows(snapshot: Snapshot, machine: str, begin: float, end: float) -> list[Sequence[str]]:
    changes = _all_rows(lambda selection: snapshot.changes(machine, pick=selection), begin, end)
    comments = _all_rows(lambda selection: snapshot.comments(machine, pick=selection), begin, end)
    labels = _all_rows(lambda selection: snapshot.labels(machine, pick=selection), begin, end)
    notes = snapshot.notes(machine, pick=RowSelection(begin, end, limit=MAX_NOTES)).rows
    rows = [(c.time, f"case {c.case.number} {c.change}", c.who or "", f"{c.fault} {c.text}") for c in changes]
    rows += [(c.time, f"comment on case {c.case}", c.who, c.text) for c in comments]
    rows += [(label.time, "label", label.who, f"{label.state}, from {_utc(label.begin)}") for label in labels]
    rows += [(note.time, note.topic, "", note.text) for note in notes]
    return [(_utc(time), *cells) for time, *cells in sorted(rows, reverse=True)]


def _all_rows(read: Callable[[RowSelection], RowPage[T]], begin: float, end: float) -> Iterator[T]:
    """Yield all rows of a period, the oldest first, page by page."""
    after: str | None = None
    while True:
        page = read(RowSelection(begin, end, after=after, limit=1000, newest_first=False))
        yield from page.rows
        if not page.more:
            return
        after = page.cursor


def _utc(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
