"""One self-contained HTML page: no script, no font and no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
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
figure { margin: 1rem 0; background: white; border: 1px solid #8884; border-radius: .5rem; padding: .5rem; }
figure svg { width: 100%; height: auto; }
figcaption { color: #666; font-size: .9rem; padding: .25rem .5rem; }
code { background: #8882; padding: .1rem .3rem; border-radius: .25rem; }
"""


class Page:
    """A page that grows from top to bottom and is written in one step."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

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
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def figure(self, svg: str, caption: str) -> None:
        """Add a drawing with what it shows."""
        self._parts.append(f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>")

    def html(self) -> str:
        """Return the whole page."""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self._title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            + "\n".join(self._parts)
            + "\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> Path:
        """Write the page; the file is there whole or not at all."""
        with replacing(path, DataError) as fresh:
            fresh.write_text(self.html(), encoding="utf-8")
        return path
