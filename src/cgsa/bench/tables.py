"""Text tables, written as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from cgsa.errors import ConfigError
from cgsa.files import replacing


@dataclass(frozen=True)
class Table:
    """A table of text cells."""

    name: str
    """Base name of its files."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)

    def latex(self) -> str:
        """Return the table as a LaTeX tabular with booktabs rules."""
        body = "".join(" & ".join(map(_latex, row)) + r" \\" + "\n" for row in self.rows)
        head = " & ".join(map(_latex, self.header)) + r" \\" + "\n"
        columns = "l" * len(self.header)
        return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"

    def csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def write(self, folder: Path) -> None:
        """Write the table in all three formats."""
        for ending, text in (("md", self.markdown()), ("tex", self.latex()), ("csv", self.csv())):
            with replacing(folder / f"{self.name}.{ending}", ConfigError) as fresh:
                fresh.write_text(text, encoding="utf-8")


def _latex(text: str) -> str:
    for sign, written in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("#", r"\#")):
        text = text.replace(sign, written)
    return text
