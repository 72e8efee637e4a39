"""What all figures share: colours, settings of matplotlib, and lines behind the data."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from matplotlib import rc_context
from matplotlib.axes import Axes

STRONG, FROZEN, QUIET, FAINT = "#d1495b", "#000000", "#777777", "#e3e3e3"
CYCLE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
"""Colours that the colour-blind tell apart (Okabe and Ito), without black and red."""


def figure_style(salt: str = "") -> AbstractContextManager[None]:
    """Return the settings under which figures are made, and must be drawn too: the number of ticks hangs on them."""
    return rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            # Numbers at the ticks are whole, however close together they are.
            "axes.formatter.useoffset": False,
            # Names come from plans: a dollar sign in one begins no formula.
            "text.parse_math": False,
            # The names inside an SVG; random without.
            "svg.hashsalt": salt,
        }
    )


def draw_gridlines(axis: Axes, values: Literal["x", "y"] = "y") -> None:
    """Draw faint lines at the ticks of the values, behind everything else."""
    axis.grid(axis=values, color=FAINT)
    axis.set_axisbelow(True)
