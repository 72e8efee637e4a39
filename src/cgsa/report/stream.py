"""The report of several methods on one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cgsa.explain.explanation import ExplainedSpectra, Explanation
from cgsa.metrics.stream import StreamScore, StreamTrace, score
from cgsa.report.explain import spectrum_pictures
from cgsa.report.figures import MAX_POINTS, StreamComparison, overview_figure, to_svg
from cgsa.report.ledger import CAPTION as LEDGER_CAPTION
from cgsa.report.ledger import ledger_figure
from cgsa.report.page import HtmlPage, render_page
from cgsa.report.timeline import LedgerTimeline

CAPTION = (
    "From top to bottom: each measured condition, which no method sees; the share of correct windows so far; the share "
    f"of correct windows in each batch; the residual response to each condition for at most {MAX_POINTS} evenly spaced "
    "windows, with the mean of the queue and the windows used for adaptation; the mean confidence of each batch. The "
    "dashed line is the onset of the fault."
)


def score_header(stages: Sequence[str]) -> list[str]:
    """Return the column names of :func:`score_row`."""
    return ["method", *stages, "average", "ECE", "adapted to", "labels correct: accepted", "rejected"]


def score_row(name: str, figures: StreamScore) -> list[str]:
    """Return the paper's figures of one method as text cells."""
    learning = (figures.acceptance_rate, figures.accepted_label_accuracy, figures.rejected_label_accuracy)
    return [
        name,
        *(f"{value:.3f}" for value in (*figures.stage_accuracy, figures.average_accuracy, figures.ece)),
        *("none" if value is None else f"{value:.3f}" for value in learning),
    ]


def gate_sentence(name: str, trace: StreamTrace) -> str | None:
    """Return in one line what the gate of a method selected; None for methods without a residual response."""
    deviation = trace.evidence.get("deviation")
    if deviation is None or trace.accepted is None:
        return None
    figures = score(trace)
    median = float(np.nanmedian(deviation)) if np.isfinite(deviation).any() else float("nan")
    labels = [
        f"{value:.3f} of the {kind}"
        for kind, value in (
            ("accepted", figures.accepted_label_accuracy),
            ("rejected", figures.rejected_label_accuracy),
        )
        if value is not None
    ]
    return (
        f"Gate of {name}: {figures.acceptance_rate:.1%} of the windows accepted, median deviation {median:.2g}; "
        f"pseudo-labels are right in {' and '.join(labels)} windows."
    )


def stream_page(
    comparison: StreamComparison,
    commands: Sequence[str],
    facts: Sequence[str],
    timelines: Mapping[str, LedgerTimeline] | None = None,
    explained: tuple[Explanation, ExplainedSpectra] | None = None,
) -> HtmlPage:
    """Return a page with the table and figures of a stream, and the commands that reproduce it.

    ``timelines`` has the ledgers of those methods whose reasons are shown, and ``explained`` says what changed with the
    fault.
    """
    return render_page(
        "stream.html",
        title=comparison.title,
        facts=[*facts, *filter(None, (gate_sentence(name, trace) for name, trace in comparison.traces.items()))],
        header=score_header(comparison.stages),
        rows=[score_row(name, score(trace)) for name, trace in comparison.traces.items()],
        overview=to_svg(overview_figure(comparison)),
        caption=CAPTION,
        ledgers={
            name: to_svg(ledger_figure(timeline, comparison.title)) for name, timeline in (timelines or {}).items()
        },
        ledger_caption=LEDGER_CAPTION,
        explanation=[] if explained is None else explained[0].sentences,
        pictures=[] if explained is None else list(spectrum_pictures(*explained)),
        commands=commands,
    )
