"""Common colours, labels, matplotlib settings and grid lines of all figures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal

from matplotlib import rc_context
from matplotlib.axes import Axes

HIGHLIGHT_COLOUR, FROZEN_COLOUR, GREY, LIGHT_GREY = "#d1495b", "#000000", "#777777", "#e3e3e3"
COLOUR_CYCLE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
"""Colour-blind safe colours (Okabe and Ito), without black and red."""

LONGEST = 40
"""Characters of a name in a figure."""


def figure_style(salt: str = "") -> AbstractContextManager[None]:
    """Return the matplotlib settings for making and drawing figures; the number of ticks depends on them."""
    return rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            # Tick labels show full numbers without an offset.
            "axes.formatter.useoffset": False,
            # Names come from plans: a dollar sign must not start a formula.
            "text.parse_math": False,
            # Element ids inside an SVG, which are random without a salt.
            "svg.hashsalt": salt,
        }
    )


def draw_gridlines(axis: Axes, values: Literal["x", "y"] = "y") -> None:
    """Draw light lines at the ticks, behind the data."""
    axis.grid(axis=values, color=LIGHT_GREY)
    axis.set_axisbelow(True)


def readable_name(name: str) -> str:
    """Return a name such as ``gear_wear`` with spaces."""
    return name.replace("_", " ")


def readable_list(names: Sequence[str]) -> str:
    """Return names with spaces, separated by commas."""
    return readable_name(", ".join(names))


def shorten_name(name: str) -> str:
    """Return a name cut to :data:`LONGEST` characters."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
