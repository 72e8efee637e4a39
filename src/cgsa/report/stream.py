"""The report of one stream that several methods met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cgsa.metrics.stream import StreamScore, score
from cgsa.report.figures import StreamStory, overview, to_svg
from cgsa.report.ledger import CAPTION as LEDGER_CAPTION
from cgsa.report.ledger import ledger_figure
from cgsa.report.page import HtmlPage
from cgsa.report.timeline import LedgerTimeline

CAPTION = (
    "From top to bottom: each measured condition, which no method is told; the share of right windows so far; the "
    "share of right windows in each batch; the residual response of every window to each condition with the mean of "
    "the queue, and which windows were learnt from; the mean confidence of each batch. The dashed line is the onset of "
    "the fault."
)


def score_header(stages: Sequence[str]) -> list[str]:
    """Return the column names of :func:`score_row`."""
    return ["method", *stages, "average", "ECE", "learnt from", "labels right: accepted", "rejected"]


def score_row(name: str, figures: StreamScore) -> list[str]:
    """Return the paper's figures of one method as texts."""
    return [
        name,
        *(f"{value:.3f}" for value in figures.stage_accuracy),
        f"{figures.average_accuracy:.3f}",
        f"{figures.ece:.3f}",
        _text(figures.acceptance_rate),
        _text(figures.accepted_label_accuracy),
        _text(figures.rejected_label_accuracy),
    ]


def stream_page(
    story: StreamStory,
    commands: Sequence[str],
    facts: Sequence[str],
    courses: Mapping[str, LedgerTimeline] | None = None,
) -> HtmlPage:
    """Return a page with table and figures of a stream, and how to repeat it.

    ``courses`` has the ledgers of those methods whose reasons are to be shown.
    """
    page = HtmlPage(story.title)
    for fact in facts:
        page.text(fact)
    page.heading("Accuracy by stage")
    rows = [score_row(name, score(trace)) for name, trace in story.traces.items()]
    page.table(score_header(story.stages), rows)
    page.text(
        "The average is the unweighted mean of the stages; ECE is pooled over the stream. Every probability is from "
        "before the update of its batch. No method sees a label or the condition."
    )
    page.heading("The stream over time")
    page.figure(to_svg(overview(story)), CAPTION)
    for name, course in (courses or {}).items():
        page.heading(f"Why {name} learnt from a window, or did not")
        page.figure(to_svg(ledger_figure(course, story.title)), LEDGER_CAPTION)
    page.heading("Do it again")
    for command in commands:
        page.code(command)
    return page


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
