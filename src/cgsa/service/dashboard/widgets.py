"""Small pieces that pages are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from html import escape

from nicegui import ui

from cgsa.service.dashboard.charts import Options
from cgsa.service.dashboard.labels import MOOD_WORDS
from cgsa.service.dashboard.summary import Mood
from cgsa.service.dashboard.theme import ICONS, mood_class


class Badge:
    """How a machine stands, as a word, a shape and a colour."""

    def __init__(self, classes: str = "") -> None:
        self._classes = classes
        self._mood: Mood | None = None
        with ui.element("span").classes(f"badge {classes}") as self._element:
            self._icon = ui.icon("hourglass_empty").props("aria-hidden=true")
            self._word = ui.label("…")

    def show(self, mood: Mood) -> None:
        """Show a mood."""
        if mood != self._mood:
            self._mood = mood
            self._element.classes(replace=f"badge {mood_class(mood)} {self._classes}")
            self._icon.set_name(ICONS[mood])
            self._word.set_text(MOOD_WORDS[mood])


class StatTile:
    """A number and what it is."""

    def __init__(self, name: str, explanation: str) -> None:
        with ui.element("div"):
            self._value = ui.label("…").classes("figure")
            ui.label(name).classes("muted").tooltip(explanation)

    def show(self, value: str) -> None:
        """Show a number."""
        self._value.set_text(value)


def heading(text: str, level: int = 2) -> None:
    """Draw the heading of a card."""
    ui.html(escape(text), tag=f"h{level}", sanitize=False)


def button(text: str, handler: Callable[[], Awaitable[None]], *, first: bool = False) -> ui.button:
    """Return a button; the first of several is what most people will want."""
    found = ui.button(text, color=None, on_click=handler).props("flat no-caps dense")
    return found.classes("act first" if first else "act")


def chart(kind: str = "") -> ui.echart:
    """Return an empty chart of a fixed height."""
    return ui.echart({"series": []}).classes(f"chart {kind}")


def draw(chart: ui.echart, options: Options) -> None:
    """Let a chart show something else, if it is anything else."""
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


def table_html(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), wrapped: Sequence[int] = ()
) -> str:
    """Return a table; what stands in it is escaped.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Their cells.
    numbers, wrapped
        Which columns hold numbers, and which text that may take several lines.

    >>> table_html(["a"], [["<1"]])
    '<table><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td>&lt;1</td></tr></tbody></table>'
    """

    def style(place: int) -> str:
        return ' class="n"' if place in numbers else ' class="wrap"' if place in wrapped else ""

    names = "".join(f'<th scope="col"{style(place)}>{escape(name)}</th>' for place, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{style(place)}>{escape(cell)}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def log_html(lines: Iterable[tuple[str, str]]) -> str:
    """Return lines of what happened when, escaped."""
    return "".join(
        f'<div class="log-line"><span class="when">{escape(when)}</span><span>{escape(what)}</span></div>'
        for when, what in lines
    )


def bars_html(counts: Sequence[tuple[str, int]]) -> str:
    """Return a bar for each count, and its share in words."""
    total = sum(count for _, count in counts) or 1
    return "".join(
        f'<div class="bar"><span>{escape(name)}</span>'
        f'<span class="track"><span class="fill" style="display:block;width:{100 * count / total:.1f}%"></span></span>'
        f'<span class="number">{count:,} ({100 * count / total:.0f} %)</span></div>'
        for name, count in counts
    )


def block(classes: str = "data") -> ui.html:
    """Return a place for such pieces, which are escaped where they are made."""
    return ui.html("", sanitize=False).classes(classes)
