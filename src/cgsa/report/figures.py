"""What figures of all reports share: colours, labels, and how they get into a page."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#4f4f4f")
"""Colour-blind safe colours (Okabe and Ito)."""
MAX_POINTS = 6000
"""Points of a scatter plot; more would only enlarge the file."""


def response_label(condition: str) -> str:
    """Return the axis label of a residual response; a single condition has an empty name."""
    return f"residual response\nto {condition}" if condition else "residual condition\nresponse"


def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element to embed in a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=110, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
