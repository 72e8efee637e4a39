"""A figure with its numbers, and its files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from cgsa.bench.figures.style import figure_style
from cgsa.bench.tables import Table
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.report.figures import to_svg

DPI = 150


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure with title, caption, and the numbers in it."""

    name: str
    """Base name of its files."""
    title: str
    caption: str
    figure: Figure
    header: tuple[str, ...]
    """Columns of the table of its numbers."""
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        # Computed once: every new layout run would move the axes slightly.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")

    @property
    def table(self) -> Table:
        """The numbers in the figure."""
        return Table(self.name, self.header, self.rows)

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG element with reproducible bytes; cached, because its file and the report both use it."""
        with figure_style(self.name):
            return to_svg(self.figure)

    def png(self) -> bytes:
        """Return the figure as a PNG with reproducible bytes."""
        full, small = io.BytesIO(), io.BytesIO()
        with figure_style():
            self.figure.savefig(full, format="png", dpi=DPI)
        # A palette needs a third of the bytes; maximum coverage with one k-means step preserves thin lines and areas.
        picture = Image.open(full).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1)
        picture.save(small, format="png", dpi=(DPI, DPI), optimize=True)
        return small.getvalue()

    def write(self, folder: Path) -> None:
        """Write the figure as SVG and PNG, and its numbers in all table formats."""
        for ending, content in (("svg", self.svg.encode()), ("png", self.png())):
            with replacing(folder / f"{self.name}.{ending}", ConfigError) as fresh:
                fresh.write_bytes(content)
        self.table.write(folder)
