from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cgsa.report.page import HtmlPage, render_page

BENCH_VALUES = {
    "title": "t",
    "facts": [],
    "scenarios": [{"id": "s", "name": "s", "title": "s", "maps": [], "tables": [], "drawings": []}],
    "others": {"tables": [], "drawings": []},
    "commands": [],
    "short": 1,
    "longest": 1,
}


def test_script_data_round_trips_and_cannot_end_the_script() -> None:
    value = {"b": ["<!--<script>", "</script>", "\u2028", 1.5, None], "a": 1}
    html = render_page("bench.html", **BENCH_VALUES, chart=value).html
    (text,) = re.findall(r'id="chart-data">(.*?)</script>', html, re.DOTALL)
    assert "<" not in text
    assert json.loads(text) == value
    assert list(json.loads(text)) == ["b", "a"]
    with pytest.raises(ValueError, match="JSON compliant"):
        render_page("bench.html", **BENCH_VALUES, chart=float("nan"))


def test_text_is_escaped() -> None:
    empty: tuple[tuple[str, ...], list[str]] = ((), [])
    values: dict[str, object] = {"facts": ["<f>"], "families": empty, "peaks": empty, "bands": empty, "kinds": None}
    pictures = [("t", "<svg></svg>", "<caption>")]
    html = render_page(
        "explain.html", title="a & b", sentences=["<script>"], pictures=pictures, commands=["x < y"], **values
    ).html
    assert "a &amp; b" in html
    assert "x &lt; y" in html
    assert "<svg></svg>" in html
    for tag in ("<script>", "<caption>", "<f>"):
        assert tag not in html


def test_a_page_is_one_file(tmp_path: Path) -> None:
    path = HtmlPage("<p>text</p>").write(tmp_path / "new" / "page.html")
    assert path.read_text() == "<p>text</p>"
