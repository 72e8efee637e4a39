from __future__ import annotations

from pathlib import Path

from cgsa.data.importing.choose import ImportChoices, choose_plan
from cgsa.data.importing.overview import overview
from cgsa.data.importing.write import write_data_set
from cgsa.data.read_options import ReadOptions
from tests.data.made_machine import write_csv_files


def test_what_was_found_and_what_is_odd(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", runs=2)
    (folder / "worn_1200rpm_1.csv").unlink()
    (folder / "worn_1200rpm_2.csv").unlink()
    short = folder / "healthy_600rpm_1.csv"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:300]))
    plan = choose_plan(folder, ReadOptions(), ImportChoices("{class}_{speed}rpm_{run}"))
    found = overview(write_data_set(plan, tmp_path / "machine"))
    facts = dict(found.facts)
    assert facts["sample rate"] == "256 Hz"
    assert facts["channels"] == "acc_x (g), acc_y (g)"
    assert facts["recordings"].startswith("10, ")
    assert found.classes == ("healthy", "worn")
    assert found.points == (("speed 600 rpm", (2, 2)), ("speed 900 rpm", (2, 2)), ("speed 1200 rpm", (2, 0)))
    assert any(
        text.startswith("1 recordings are much shorter than the usual 4 s, such as healthy_600rpm_1")
        for text in found.odd
    )
    assert "worn was not recorded at 1 of 3 conditions, such as speed 1200 rpm" in found.odd
    assert "decimal comma (all files)" in found.odd


def test_one_class_at_one_condition_is_odd(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", states=["healthy"], speeds=[600])
    plan = choose_plan(folder, ReadOptions(), ImportChoices(use_suggestion=True))
    odd = overview(write_data_set(plan, tmp_path / "machine")).odd
    assert any("all recordings are healthy" in text for text in odd)
    assert any("all recordings are at one operating condition" in text for text in odd)
