"""The sentences of docs/explain.md about its table are true of the published measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.explain_lines import ENVELOPES, REAL, RIGHT, table_of
from benchmarks.publish import measurement_file
from benchmarks.result_files import Result, read_lines

ROOT = Path(__file__).parent.parent
PAGE = " ".join((ROOT / "docs" / "explain.md").read_text(encoding="utf-8").split())
ROWS = read_lines(measurement_file("explain_lines"))
DEFAULT = ENVELOPES[0]


def count(name: str, where: Callable[[Result], bool]) -> tuple[int, int]:
    chosen = [row for row in ROWS if RIGHT[row["state"]] and where(row)]
    return sum(bool(row[name]) for row in chosen), len(chosen)


def simulated(row: Result) -> bool:
    return bool(row["set"] != REAL and row["envelope"] == DEFAULT)


def test_shares_of_simulated_faults() -> None:
    right, cases = count("right", simulated)
    assert f"for {right} of {cases} simulated faults" in PAGE
    part, _ = count("part", simulated)
    assert f"The damaged part itself is first for {part}" in PAGE
    assert count("right", lambda row: simulated(row) and row["state"] == "bearing_ball") == (9, 9)
    assert count("right", lambda row: row["state"] == "bearing_ball" and row["envelope"] == "kurtosis") == (2, 9)


def test_shares_of_real_bearings() -> None:
    right, cases = count("right", lambda row: row["set"] == REAL and row["envelope"] == DEFAULT)
    assert f"Of the real bearings, {right} of {cases} recordings" in PAGE
    white, _ = count("right", lambda row: row["set"] == REAL and row["envelope"] == "prewhitened")
    broad, _ = count("right", lambda row: row["set"] == REAL and row["envelope"] == "broad")
    assert f"The prewhitened envelope alone names {white}, and the broad envelope names {broad}" in PAGE
    missed = [row["unit"] for row in ROWS if row["set"] == REAL and row["envelope"] == DEFAULT and not row["right"]]
    assert {unit: missed.count(unit) for unit in set(missed)} == {"KA15": 2, "KI14": 1}


def test_the_choice_was_the_best_on_the_recordings_for_development() -> None:
    rows = read_lines(measurement_file("explain_development"))
    found = {name: [bool(row["right"]) for row in rows if row["envelope"] == name] for name in ENVELOPES}
    assert {len(one) for one in found.values()} == {50}
    assert max(found, key=lambda name: sum(found[name])) == DEFAULT
    assert f"**of all six** | **{sum(found[DEFAULT])}**" in PAGE


def test_wrong_speeds_and_healthy_recordings() -> None:
    rows = table_of(ROWS).rows
    elsewhere = max(float(row[6]) for row in rows if row[6])
    assert f"at most {elsewhere:.0%} in a row" in PAGE.replace(" %", "%")
    healthy = [float(row[7]) for row in rows if row[1] == "health"]
    assert f"Its strength is {min(healthy):.1f} to {max(healthy):.1f}" in PAGE
    assert min(float(row[7]) for row in rows if row[0] != REAL and row[1] != "health") < max(healthy)
