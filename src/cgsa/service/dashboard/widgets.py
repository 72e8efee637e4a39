"""Elements that several pages use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from html import escape

from jinja2 import Environment
from nicegui import ui

from cgsa.service.dashboard.chart_parts import Options
from cgsa.service.dashboard.labels import STATUS_LABELS
from cgsa.service.dashboard.summary import DisplayStatus
from cgsa.service.dashboard.theme import ICONS, status_class

# Tables and logs are HTML in one element: with a NiceGUI element per cell, a page would update hundreds per second.
_TEMPLATES = Environment(autoescape=True)
_TABLE = _TEMPLATES.from_string(
    '<table><thead><tr>{% for name in head %}<th scope="col"{{ styles.get(loop.index0, {})|xmlattr }}>{{ name }}</th>'
    "{% endfor %}</tr></thead><tbody>{% for row in rows %}<tr>{% for cell in row %}"
    "<td{{ styles.get(loop.index0, {})|xmlattr }}>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table>"
)
_LOG = _TEMPLATES.from_string(
    '{% for time, text in lines %}<div class="log-line"><span class="when">{{ time }}</span><span>{{ text }}</span>'
    "</div>{% endfor %}"
)
_BARS = _TEMPLATES.from_string(
    '{% for name, count in counts %}<div class="bar"><span>{{ name }}</span><span class="track"><span class="fill" '
    """style="display:block;width:{{ '%.1f' % (100 * count / total) }}%"></span></span>"""
    """<span class="number">{{ '{:,} ({:.0f} %)'.format(count, 100 * count / total) }}</span></div>{% endfor %}"""
)


class Badge:
    """The status of a machine as a word, an icon and a colour."""

    def __init__(self, classes: str = "") -> None:
        self._classes = classes
        self._status: DisplayStatus | None = None
        with ui.element("span").classes(f"badge {classes}") as self._element:
            self._icon = ui.icon("hourglass_empty").props("aria-hidden=true")
            self._label = ui.label("…")

    def show(self, status: DisplayStatus) -> None:
        """Show a status."""
        if status != self._status:
            self._status = status
            self._element.classes(replace=f"badge {status_class(status)} {self._classes}")
            self._icon.set_name(ICONS[status])
            self._label.set_text(STATUS_LABELS[status])


class StatTile:
    """A number with its name."""

    def __init__(self, name: str, explanation: str) -> None:
        with ui.element("div"):
            self._value = ui.label("…").classes("figure")
            ui.label(name).classes("muted").tooltip(explanation)

    def show(self, value: str) -> None:
        """Show a number."""
        self._value.set_text(value)


def heading(text: str) -> None:
    """Add the heading of a card."""
    ui.html(escape(text), tag="h2", sanitize=False)


def button(text: str, handler: Callable[[], Awaitable[None]], *, first: bool = False) -> ui.button:
    """Add a button; the first of several stands out as the usual choice."""
    found = ui.button(text, color=None, on_click=handler).props("flat no-caps dense")
    return found.classes("act first" if first else "act")


def empty_chart(kind: str = "") -> ui.echart:
    """Add an empty chart of a fixed height."""
    return ui.echart({"series": []}).classes(f"chart {kind}")


def update_chart(chart: ui.echart, options: Options) -> None:
    """Send new options to a chart if they differ from the present ones."""
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


def html_block(classes: str) -> ui.html:
    """Add an empty element for the HTML of the functions below, which is escaped already."""
    return ui.html("", sanitize=False).classes(classes)


def scrolled_block(name: str, classes: str = "data") -> ui.html:
    """Add an empty element that scrolls where its content does not fit: by keyboard, too."""
    return html_block(classes).props(f'tabindex=0 role=region aria-label="{name}"')


def table_html(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), wrapped: Sequence[int] = ()
) -> str:
    """Return a table with escaped content.

    Parameters
    ----------
    numbers, wrapped
        Indices of the columns with numbers, and of those with text of several lines.

    >>> table_html(["a"], [["<1"]])
    '<table><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td>&lt;1</td></tr></tbody></table>'
    """
    styles = {**{index: {"class": "n"} for index in numbers}, **{index: {"class": "wrap"} for index in wrapped}}
    return _TABLE.render(head=head, rows=rows, styles=styles)


def log_html(lines: Iterable[tuple[str, str]]) -> str:
    """Return times and texts, one per line, escaped."""
    return _LOG.render(lines=lines)


def bars_html(counts: Sequence[tuple[str, int]]) -> str:
    """Return a bar for each name with its count and share, escaped."""
    return _BARS.render(counts=counts, total=sum(count for _, count in counts) or 1)
