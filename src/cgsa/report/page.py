"""One self-contained HTML page: no script, no font and no picture from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

from cgsa.errors import DataError
from cgsa.files import replacing

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0; background: white; border: 1px solid #8884; border-radius: .5rem; padding: .5rem; }
figure svg { width: 100%; height: auto; }
figcaption { color: #666; font-size: .9rem; padding: .25rem .5rem; }
code { background: #8882; padding: .1rem .3rem; border-radius: .25rem; }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""A browser is told, too, that nothing may come from elsewhere."""


class HtmlPage:
    """A page that grows from top to bottom and is written in one step.

    Parameters
    ----------
    title
        Stands in the first line and in the browser's bar.
    style, script
        What a page has beyond the plain style, and a script at its end; both our own, never data.
    """

    def __init__(self, title: str, *, style: str = "", script: str = "") -> None:
        self._title = title
        self._style = STYLE + style
        self._script = script
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str, level: int = 2) -> None:
        """Begin a part; a lower level stands higher."""
        self._parts.append(f"<h{level}>{escape(text)}</h{level}>")

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def code(self, text: str) -> None:
        """Add a command that the reader can repeat."""
        self._parts.append(f"<p><code>{escape(text)}</code></p>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; its first column names the rows."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        self.raw(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')

    def figure(self, svg: str, caption: str) -> None:
        """Add a drawing with what it shows."""
        self._parts.append(f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>")

    def navigation(self, places: Mapping[str, str]) -> None:
        """Add links to sections of this page: from the name of each section to the words to click."""
        links = "".join(f'<a href="#{escape(name)}">{escape(words)}</a>' for name, words in places.items())
        self._parts.append(f"<nav>{links}</nav>")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Put what is added meanwhile into a section that links can name."""
        self._parts.append(f'<section id="{escape(name)}">')
        yield
        self._parts.append("</section>")

    @contextmanager
    def folded(self, words: str) -> Iterator[None]:
        """Hide what is added meanwhile behind words to click."""
        self._parts.append(f"<details><summary>{escape(words)}</summary>")
        yield
        self._parts.append("</details>")

    def data(self, name: str, value: object) -> None:
        """Add a value for the page's script to read, as JSON in an element of this name."""
        # Inside a script element only "<" can begin anything that ends it.
        text = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        self._parts.append(f'<script type="application/json" id="{escape(name)}">{text}</script>')

    def raw(self, html: str) -> None:
        """Add HTML as it is; whoever calls has escaped what came from outside."""
        self._parts.append(html)

    def html(self) -> str:
        """Return the whole page."""
        script = f"\n<script>{self._script}</script>" if self._script else ""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f"<title>{escape(self._title)}</title>\n<style>{self._style}</style>\n</head>\n<body>\n"
            + "\n".join(self._parts)
            + f"{script}\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> Path:
        """Write the page; the file is there whole or not at all."""
        with replacing(path, DataError) as fresh:
            fresh.write_text(self.html(), encoding="utf-8")
        return path
