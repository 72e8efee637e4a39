"""Published results are consistent: pages show tables of the rows, and the rows come from the archived records."""

from __future__ import annotations

import csv
import json
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest
from benchmarks import healthy_only, impostors, publish, scenario_tables
from benchmarks.publish import (
    PAGES,
    PLAN_FILES,
    RESULTS,
    TABLE,
    archive_of,
    fill_tables,
    published_plans,
    shown_figures,
)

from cgsa.bench.run import collect_records

DETERMINISTIC = {"source", "tent_full", "cgsa", "lame", "cofa", "sar"}
"""Methods that draw no random number."""
FULL = 6_965_316
"""Parameters of F and G."""
MEAN_BRANCH = 41_473
VOLUMES = {
    "source": (FULL, 0),
    "tent_full": (FULL, FULL),
    "adacontrast": (4 * FULL, FULL),
    "dplot": (5 * FULL, 2 * FULL),
    "surgeon": (3 * FULL, 2 * FULL),
    "oafd": (2 * FULL, FULL),
    "cgsa": (2 * FULL + MEAN_BRANCH, FULL),
}
"""Table V of the paper: forward and backward volume of a batch."""

PLANS = sorted(path.parent for path in RESULTS.glob("*/rows.csv"))


def rows_of(plan: Path) -> list[dict[str, str]]:
    with (plan / "rows.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_pages_show_the_tables_that_the_rows_give(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill_tables(text) == text, "run python -m benchmarks.publish regenerate"


def test_some_tables_are_shown() -> None:
    assert len({table for page in PAGES for table in TABLE.findall(page.read_text(encoding="utf-8"))}) > 40


def test_a_scenario_file_that_differs_from_the_paper_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {row[-1] for row in scenario_tables.online_table().rows} == {"nothing", ""}
    monkeypatch.setitem(scenario_tables.PAPER_ONLINE, "motor", ("30 Nm", "45 Nm", "10 Nm"))
    assert [row[-1] for row in scenario_tables.online_table().rows] == ["nothing", "", "C2, C3", ""]


def test_a_wrong_digit_in_a_table_is_found() -> None:
    text = next(page for page in PAGES if page.name == "robust.md" and page.parent.name == "benchmarks").read_text()
    shown = TABLE.search(text)
    assert shown is not None
    wrong = shown[0].replace("0.8", "0.9", 1)
    assert wrong != shown[0]
    assert fill_tables(wrong) == shown[0]


def test_the_repository_keeps_archives_rows_plans_and_shown_figures_alone() -> None:
    kept = {file.relative_to(RESULTS).as_posix() for file in RESULTS.rglob("*") if file.is_file()}
    plans = published_plans()
    expected = {archive_of(plan).relative_to(RESULTS).as_posix() for plan in plans}
    expected |= {f"{plan}/rows.csv" for plan in plans} | shown_figures()
    expected |= {f"plans/{file.name}" for file in PLAN_FILES.glob("*.toml")}
    expected |= {f"impostors/{name}.csv" for name in (*impostors.REAL, *impostors.RIGS)} | {"impostors/table.md"}
    expected |= {
        f"impostors/{folder}/{name}" for folder in ("oracle", "joined") for name in ("phone_motor2.csv", "table.md")
    }
    expected |= {f"healthy_only/{name}.csv" for name in (*healthy_only.REAL, *healthy_only.RIGS)}
    expected |= {"healthy_only/table.md", "healthy_only/changed_lines.md"}
    expected |= {f"{publish.MEASUREMENTS}/{name.partition('-')[0]}.jsonl" for name in publish.MEASURED_TABLES}
    expected |= {f"{publish.ROTATION}/{name}.csv" for name in {str(row["set"]) for row in publish.read_rotation()}}
    assert kept == expected
    assert {file.stem for file in PLAN_FILES.glob("*.toml")} <= set(plans)


@pytest.mark.parametrize(
    ("folder", "counted"),
    [("impostors", "windows"), ("impostors/oracle", "windows"), ("impostors/joined", "recordings")],
)
def test_the_table_of_impostors_is_that_of_its_rows_and_on_the_page(folder: str, counted: str) -> None:
    table = (RESULTS / folder / "table.md").read_text(encoding="utf-8")
    assert impostors.table_of(RESULTS / folder, counted) == table
    assert table in (publish.ROOT / "docs" / "recommended.md").read_text(encoding="utf-8")


def test_the_table_of_healthy_only_models_is_that_of_its_rows_and_on_the_page() -> None:
    table = (RESULTS / "healthy_only" / "table.md").read_text(encoding="utf-8")
    assert healthy_only.table_of(RESULTS / "healthy_only").markdown() == table
    assert table in (publish.ROOT / "docs" / "healthy-only.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("plan", published_plans())
def test_the_rows_are_those_of_all_archived_records(plan: str) -> None:
    with (RESULTS / plan / "rows.csv").open(newline="", encoding="utf-8") as file:
        published = [tuple(sorted(item for item in row.items() if item[1])) for row in csv.DictReader(file)]
    trials = {dict(row)["trial"] for row in published}
    archived = []
    with tarfile.open(archive_of(plan)) as packed:
        for member in packed:
            content = packed.extractfile(member)
            assert content is not None
            for row in json.load(content)["rows"]:
                texts = {name: str(value) for name, value in row.items() if value not in {None, ""}}
                # The comparison has a spare trial, with which settings are chosen.
                if texts["trial"] in trials:
                    archived.append(tuple(sorted(texts.items())))
    assert sorted(published) == sorted(archived)


@pytest.mark.parametrize("plan", ["efficiency", "robust-real"])
def test_records_in_an_archive_give_the_bytes_of_the_rows(plan: str, tmp_path: Path) -> None:
    collect_records(publish.unpack(plan, tmp_path))
    assert (tmp_path / plan / "rows.csv").read_bytes() == (RESULTS / plan / "rows.csv").read_bytes()


def test_records_are_packed_into_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive_of("efficiency").read_bytes()
    publish.unpack("efficiency", tmp_path)
    monkeypatch.setattr(publish, "ARCHIVES", tmp_path / "records")
    publish.pack(tmp_path, "efficiency")
    assert (tmp_path / "records" / "efficiency.tar.xz").read_bytes() == before


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_methods_that_draw_nothing_give_one_c1_for_all_faults(plan: Path) -> None:
    """The first stage is healthy, so it is the same windows whatever the fault will be."""
    found: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows_of(plan):
        if row["stage"] == "C1" and row["method"] in DETERMINISTIC:
            found[row["scenario"], row["entry"], row["trial"]].add((row["accuracy"], row["ece"]))
    assert found
    assert [key for key, values in found.items() if len(values) > 1] == []


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_volumes_are_the_papers(plan: Path) -> None:
    """Only on machines whose windows have the paper's size, under its profile, and where no batch went unlearnt."""
    for row in rows_of(plan):
        if row["stage"] != "all" or row["scenario"] not in {"gearbox", "motor"} or row["profile"] != "paper":
            continue
        forward, backward = float(row["forward_volume"]), float(row["backward_volume"])
        batches = int(row["batches"])
        if row["method"] == "cotta":
            # Three passes, and the views of those batches of which the source model was unsure.
            unsure = (forward / FULL - 3) * batches / 32
            assert unsure == pytest.approx(round(unsure), abs=1e-6)
            assert backward == FULL
        elif row["method"] == "tri_training":
            retrained = backward * batches / FULL
            assert retrained == pytest.approx(round(retrained), abs=1e-6)
            assert 0 <= retrained <= 3
            assert forward == pytest.approx(FULL * (9 + 5 * retrained / batches))
        elif row["method"] in VOLUMES:
            assert forward == VOLUMES[row["method"]][0]
            assert backward <= VOLUMES[row["method"]][1]
