from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cgsa.bench.figures import all_drawings
from cgsa.bench.records import RunRecord
from cgsa.bench.report import LONGEST, SHORT, bench_page
from cgsa.bench.result_tables import totals_table
from cgsa.bench.tables import Table
from tests.bench.figures.made_records import FAULTS, make_record

VOID = {"meta", "input"}
HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;$x$"


class Reader(HTMLParser):
    """Checks that elements nest, and collects their names and attributes, and the text of scripts and cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.cells: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def page_of(records: Sequence[RunRecord], tables: Sequence[Table] = ()) -> str:
    return bench_page(records, tables, all_drawings(records), facts=["A fact."], commands=["cgsa bench x"]).html


RECORDS = [
    make_record(entry, fault, trial, method=method, gated=method == "cgsa", scenario=scenario)
    for trial in range(2)
    for scenario, faults in (("gearbox", FAULTS), ("elsewhere", FAULTS[:1]))
    for fault in faults
    for entry, method in (("SupCon", "source"), ("CGSA", "cgsa"))
]


@pytest.fixture(scope="module")
def html() -> str:
    return page_of(RECORDS)


def test_the_page_is_self_contained(html: str) -> None:
    reader = Reader(html)
    for name, value in reader.attributes:
        if name in {"src", "href", "xlink:href", "action", "data"}:
            assert value is not None
            assert value.startswith(("#", "data:"))
    assert not {"link", "iframe", "object", "embed", "base"} & set(reader.names)
    assert not re.search(r"@import|url\(\s*['\"]?http", html)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\s*\(|innerHTML", html)


def test_every_link_has_exactly_one_target(html: str) -> None:
    reader = Reader(html)
    targets = [value for name, value in reader.attributes if name == "href" and value is not None]
    names = [value for name, value in reader.attributes if name == "id"]
    for target in ("#curves", "#scenario-1", "#scenario-2", "#reproduce"):
        assert target in targets
        assert names.count(target[1:]) == 1


def test_the_chart_data_has_every_mean_curve(html: str) -> None:
    data = json.loads(Reader(html).scripts[0])
    assert list(data) == ["gearbox", "elsewhere"]
    assert list(data["gearbox"]["faults"]) == list(FAULTS)
    stream = data["gearbox"]["faults"]["teeth_crack"]
    assert (stream["begins"], stream["end"], stream["onset"]) == ({"C1": 0, "C2": 600, "C3": 1200}, 1800, 900)
    mine = [r.details.batches for r in RECORDS if (r.scenario, r.entry, r.fault) == ("gearbox", "CGSA", "teeth_crack")]
    curve = stream["curves"]["CGSA"]
    assert curve["seen"] == list(range(100, 1900, 100))
    for batch in range(18):
        cumulative = sum(sum(b.right[: batch + 1]) for b in mine) / len(mine) / (100 * (batch + 1))
        realtime = sum(b.right[batch] for b in mine) / len(mine) / 100
        assert curve["cumulative"][batch] == pytest.approx(cumulative, abs=1e-4)
        assert curve["real-time"][batch] == pytest.approx(realtime, abs=1e-4)
    assert data["gearbox"]["line_styles"]["SupCon"]["colour"] == "currentColor"
    assert ".line_styles" in Reader(html).scripts[1]
    assert list(data["gearbox"]["line_styles"]) == list(stream["curves"]) == ["SupCon", "CGSA"]


def test_the_chart_draws_thick_lines_last() -> None:
    records = [make_record(gated=False), make_record("CoTTA", method="cotta", gated=False)]
    data = json.loads(Reader(page_of(records)).scripts[0])["gearbox"]
    assert list(data["line_styles"]) == ["CGSA", "CoTTA"]
    assert list(data["faults"]["gear_wear"]["curves"]) == ["CoTTA", "CGSA"]


def test_maps_show_means_and_differences_to_the_paper(html: str) -> None:
    def mean(fault: str, stage: str) -> float:
        values = [
            float(str(row["accuracy"]))
            for r in RECORDS
            for row in r.rows
            if (r.scenario, r.entry, row["stage"]) == ("gearbox", "CGSA", stage) and fault in {r.fault, "all"}
        ]
        return sum(values) / len(values)

    section = html[html.index('id="scenario-1"') : html.index('id="scenario-2"')]
    rows = re.findall(r"<tr><td>CGSA</td>(.*?)</tr>", section)[:3]
    accuracy, ece, gap = (re.findall(r">([^<]+)</td>", row) for row in rows)
    places = [(fault, stage) for fault in FAULTS for stage in ("C1", "C2", "C3", "all")] + [("all", "all")]
    assert accuracy == [f"{mean(*place):.3f}" for place in places]
    assert ece == ["0.100", "0.100", "0.100", "0.050"] * 3 + ["0.050"]
    assert gap[0] == f"{mean('gear_wear', 'C1') - 0.891:+.3f}"
    assert gap[-1] == f"{mean('all', 'all') - 0.918:+.3f}"


def test_a_machine_absent_from_the_paper_is_not_compared_with_it(html: str) -> None:
    elsewhere = html[html.index('id="scenario-2"') :]
    assert "difference to the paper" not in elsewhere
    assert "difference to the paper" in html


def test_tables_and_figures_are_in_the_section_of_their_scenario() -> None:
    rows = [row for record in RECORDS for row in record.rows]
    tables = [
        totals_table(rows, "gearbox"),
        totals_table(rows, "elsewhere"),
        Table("about-nothing", ("a",), (("lonely",),)),
    ]
    html = page_of(RECORDS, tables)
    first, second, last = (html.index(f'id="{name}"') for name in ("scenario-1", "scenario-2", "reproduce"))
    assert html[first:second].count("total average</th>") == html[second:last].count("total average</th>") == 2
    assert "Around the changes on the gearbox" in html[first:second]
    assert "Around the changes on the elsewhere" in html[second:last]
    assert second < html.index("lonely") < last


def test_one_scenario_name_may_contain_another() -> None:
    records = [make_record(scenario=name, gated=False) for name in ("motor", "real-motor")]
    html = page_of(records, [Table("totals-real-motor", ("a",), (("mine",),))])
    assert html.index('id="scenario-2"') < html.index("mine")


def test_long_tables_are_folded_and_the_longest_are_only_in_files() -> None:
    def made(count: int) -> str:
        return page_of(RECORDS[:1], [Table("long-gearbox", ("n",), tuple((str(n),) for n in range(count)))])

    assert f"<summary>{SHORT + 1} rows</summary>" in made(SHORT + 1)
    assert " rows</summary>" not in made(SHORT)
    longest = [make_record(batch_size=1 + 1800 // (2 * LONGEST), gated=False)]
    assert page_of(longest).count("The numbers drawn") == 1


def test_text_from_outside_is_escaped() -> None:
    records = [
        make_record(HOSTILE, HOSTILE, scenario=HOSTILE, gated=gated, method=method, settings={HOSTILE: HOSTILE})
        for gated, method in ((True, "cgsa"), (False, "source"))
    ]
    for record in records:
        for row in record.rows:
            assert isinstance(row, dict)
            row["plan"] = HOSTILE
    table = Table(f"totals-{HOSTILE}", (HOSTILE,), ((HOSTILE,),))
    drawings = all_drawings(records)
    html = bench_page(records, [table], drawings, facts=[HOSTILE], commands=[HOSTILE]).html
    reader = Reader(html)
    assert reader.names.count("script") == 2
    assert "img" not in reader.names
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    data = json.loads(reader.scripts[0])
    assert list(data[HOSTILE]["faults"][HOSTILE]["curves"]) == [HOSTILE]
    assert HOSTILE in reader.cells


@pytest.mark.parametrize("records", [[], RECORDS[:1], [make_record()], [make_record(batch_size=1800)]])
def test_any_records_make_a_page(records: list[RunRecord]) -> None:
    html = page_of(records)
    Reader(html)
    assert "A fact." in html
    assert "cgsa bench x" in html


def test_the_report_is_one_file_with_reproducible_bytes(tmp_path: Path) -> None:
    paths = [bench_page(RECORDS, [], all_drawings(RECORDS)).write(tmp_path / name) for name in ("a.html", "b.html")]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.html", "b.html"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
