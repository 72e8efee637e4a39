"""Line styles of the entries, the same in all figures of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cgsa.bench.figures.selection import HIGHLIGHTED
from cgsa.bench.figures.style import COLOUR_CYCLE, FROZEN_COLOUR, HIGHLIGHT_COLOUR
from cgsa.bench.records import RunRecord

THIN = 0.9
"""Width of most lines, which lie close together."""
DASHES = ((), (5.0, 2.0), (1.0, 1.5), (6.0, 1.5, 1.0, 1.5))


@dataclass(frozen=True)
class LineStyle:
    """The line style of an entry."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps; empty means a solid line."""
    width: float

    @property
    def opacity(self) -> float:
        """Thin lines are translucent."""
        return 0.8 if self.width <= THIN else 1.0


def line_styles(records: Sequence[RunRecord]) -> dict[str, LineStyle]:
    """Return a style per entry: CGSA and frozen models stand out; the others cycle through colours and dashes."""
    methods = {record.entry: record.whole_stream["method"] for record in records}
    frozen = [entry for entry, method in methods.items() if method == "source"]
    others = [entry for entry in methods if entry not in {HIGHLIGHTED, *frozen}]
    styles = {entry: LineStyle(FROZEN_COLOUR, DASHES[place % len(DASHES)], 1.3) for place, entry in enumerate(frozen)}
    for place, entry in enumerate(others):
        cycle, colour = divmod(place, len(COLOUR_CYCLE))
        styles[entry] = LineStyle(COLOUR_CYCLE[colour], DASHES[cycle % len(DASHES)], THIN)
    return {entry: styles.get(entry, LineStyle(HIGHLIGHT_COLOUR, (), 1.8)) for entry in methods}
