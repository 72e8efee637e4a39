"""How the lines of the entries look, the same in all figures of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cgsa.bench.figures.selection import OURS
from cgsa.bench.figures.style import CYCLE, FROZEN, STRONG
from cgsa.bench.records import RunRecord

THIN = 0.9
"""Width of the lines of most entries, which lie close together."""
DASHES = ((), (5.0, 2.0), (1.0, 1.5), (6.0, 1.5, 1.0, 1.5))


@dataclass(frozen=True)
class LineStyle:
    """How the line of an entry looks."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps; empty is a solid line."""
    width: float

    @property
    def opacity(self) -> float:
        """Thin lines let those beneath them shine through."""
        return 0.8 if self.width <= THIN else 1.0


def line_styles(records: Sequence[RunRecord]) -> dict[str, LineStyle]:
    """Return a look for every entry: ours and the frozen ones strong, a cycle of colours and dashes for the others."""
    methods = {record.entry: record.whole["method"] for record in records}
    frozen = [entry for entry, method in methods.items() if method == "source"]
    others = [entry for entry in methods if entry not in {OURS, *frozen}]
    looks = {entry: LineStyle(FROZEN, DASHES[place % len(DASHES)], 1.3) for place, entry in enumerate(frozen)}
    for place, entry in enumerate(others):
        turn, colour = divmod(place, len(CYCLE))
        looks[entry] = LineStyle(CYCLE[colour], DASHES[turn % len(DASHES)], THIN)
    return {entry: looks.get(entry, LineStyle(STRONG, (), 1.8)) for entry in methods}
