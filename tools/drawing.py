"""Parts of the drawings that the documents show: boxes, texts, lines, on a light card."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

PAPER, INK, FAINT, BOX, ACCENT = "#ffffff", "#1f2933", "#4a5763", "#e3edf7", "#2b6cb0"
WIDTH = 960
Point = tuple[float, float]


def picture(parts: Sequence[str], height: float, title: str) -> str:
    """Return a drawing on a light card, so that it can be read on light and dark pages."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img">\n<title>{escape(title)}</title>\n'
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{ACCENT}"/></marker></defs>\n'
    )
    return head + "\n".join([box(0, 0, WIDTH, height, PAPER), *parts]) + "\n</svg>\n"


def box(left: float, top: float, width: float, height: float, fill: str) -> str:
    """Return a box with round corners."""
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}"/>'


def text(
    x: float, y: float, words: str, *, size: int, colour: str = INK, weight: str = "normal", anchor: str = "middle"
) -> str:
    """Return one line of text."""
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def line(points: Sequence[Point], colour: str = ACCENT, width: float = 2) -> str:
    """Return a line through points."""
    return f'<polyline points="{_path(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def arrow(points: Sequence[Point]) -> str:
    """Return an arrow along points."""
    style = f'fill="none" stroke="{ACCENT}" stroke-width="2" marker-end="url(#head)"'
    return f'<polyline points="{_path(points)}" {style}/>'


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
