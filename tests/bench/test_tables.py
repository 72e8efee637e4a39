from __future__ import annotations

import csv
import io
from pathlib import Path

from cgsa.bench.tables import Table


def test_every_format_has_every_cell(tmp_path: Path) -> None:
    table = Table("t", ("a_b", "c"), (("50 %", "1 ± 2"),))
    table.write(tmp_path)
    assert (tmp_path / "t.md").read_text() == "| a_b | c |\n| --- | --- |\n| 50 % | 1 ± 2 |\n"
    assert list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text()))) == [["a_b", "c"], ["50 %", "1 ± 2"]]
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b & c \\" in latex
    assert r"50 \% & 1 $\pm$ 2 \\" in latex
