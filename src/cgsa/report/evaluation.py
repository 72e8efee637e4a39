"""The page of an evaluation: how good a model is on labelled recordings."""

from __future__ import annotations

from matplotlib.figure import Figure

from cgsa.evaluation.results import Evaluation, StreamGroup
from cgsa.metrics.reliability import Reliability
from cgsa.report.card_figures import CONFUSION_CAPTION, accuracy_figure, confusion_figure
from cgsa.report.evaluation_tables import (
    SMALL_PRINT,
    group_name,
    headline,
    overall_table,
    point_table,
    stream_table,
    truth_table,
)
from cgsa.report.figures import COLOURS, to_svg
from cgsa.report.page import HtmlPage, render_page

RELIABILITY_CAPTION = (
    "Share of right windows by the probability that the model gives its class, as it is shown beside verdicts. On the "
    "line, nine of ten windows with a probability of 0.9 are right; the bars are the shares of all windows."
)
POINT_CAPTION = (
    "Accuracy at every operating condition: verdicts joined over time, and single windows. The dashed line is the "
    "least at which a model should be relied on."
)


def evaluation_page(found: Evaluation) -> HtmlPage:
    """Return the page of an evaluation."""
    return render_page(
        "evaluation.html",
        title=f"Evaluation of {found.model}",
        sentences=headline(found),
        overall=overall_table(found),
        groups=[_section(group, found) for group in found.groups],
        facts=[
            ("recordings", found.data),
            ("method", found.method),
            ("classes", ", ".join(found.classes)),
            ("notes", "; ".join(found.notes) or "none"),
        ],
        small_print=SMALL_PRINT,
        confusion_caption=CONFUSION_CAPTION,
        reliability_caption=RELIABILITY_CAPTION,
        point_caption=POINT_CAPTION,
    )


def reliability_figure(found: Reliability) -> Figure:
    """Draw the share of right windows by their probability."""
    figure = Figure(figsize=(4.5, 4.2), layout="constrained")
    axis = figure.subplots()
    many, total = len(found.windows), max(1, sum(found.windows))
    middles = [(place + 0.5) / many for place in range(many)]
    shares = [count / total for count in found.windows]
    axis.bar(middles, shares, width=0.9 / many, color="#d9e2ec", label="share of windows")
    axis.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1)
    points = found.points
    axis.plot([one[0] for one in points], [one[1] for one in points], color=COLOURS[0], marker="o", label="right")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("probability of the diagnosed class")
    axis.set_ylabel("share of right windows")
    axis.legend(loc="upper left", frameon=False, fontsize=9)
    return figure


def _section(group: StreamGroup, found: Evaluation) -> dict[str, object]:
    name = group_name(group, found)
    points = accuracy_figure([one.as_part() for one in group.by_point()])
    return {
        "name": name,
        "points": point_table(group, name),
        "points_figure": to_svg(points),
        "classes": truth_table(group, found, name),
        "confusion": to_svg(confusion_figure(group.confusion, found.classes)),
        "reliability": to_svg(reliability_figure(group.reliability)),
        "streams": stream_table(group, name),
    }
