from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.nn.assessment import Counts, add_counts, class_accuracy, halves, median_delay
from cgsa.nn.bundle import ModelBundle
from tests.assessments import assessment, counts, levels, result
from tests.machines import ensemble_bundle

tables = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=3, max_size=3)


@given(tables)
def test_healthy_and_faulty_windows_count_half_each(rows: list[list[int]]) -> None:
    table: Counts = tuple(map(tuple, rows))
    shares = [row[label] / sum(row) if sum(row) else None for label, row in enumerate(rows)]
    assert class_accuracy(table) == shares
    faults = [share for share in shares[1:] if share is not None]
    if shares[0] is None or not faults:
        assert halves(table) is None
    else:
        assert halves(table) == pytest.approx(0.5 * shares[0] + 0.5 * np.mean(faults))


@given(st.lists(tables, min_size=1, max_size=4))
def test_tables_are_added_cell_by_cell(several: list[list[list[int]]]) -> None:
    added = add_counts(tuple(map(tuple, rows)) for rows in several)
    assert np.array_equal(np.array(added), np.sum(several, axis=0))


def test_an_estimate_is_the_mean_over_the_parts_that_represent_it() -> None:
    found = assessment(
        [
            *levels(80, 100, 90, 60),
            result("combination", "slow and loaded", 80),
            result("specimen", "specimen 1", 40),
            result("latest", "last quarter", 100, verdicts=90),
        ]
    )
    expected = {
        "within": (2, 0.975),
        "other combination": (1, 0.9),
        "other specimen": (1, 0.7),
        "beyond": (2, 0.85),
        "later": (1, 1.0),
    }
    assert {scope: one.parts for scope, one in found.estimates.items()} == {
        name: one[0] for name, one in expected.items()
    }
    for scope, one in found.estimates.items():
        assert one.accuracy == pytest.approx(expected[scope][1])
    assert found.estimates["within"].verdict_accuracy == pytest.approx(0.975)
    # No stream could be made of the specimen.
    assert found.estimates["other specimen"].verdict_accuracy is None
    assert found.new_condition == found.estimates["other combination"]
    assert found.new_level(0) == found.estimates["within"]
    assert found.new_level(0, beyond=True) == found.estimates["beyond"]
    assert found.new_level(1) is None
    assert found.leading == found.estimates["other specimen"]
    assert [one.name for one in found.within("beyond")] == ["speed 600 rpm", "speed 2400 rpm"]


def test_other_conditions_and_other_specimens_are_never_mixed() -> None:
    good = assessment([*levels(60, 70, 60), result("specimen", "specimen 1", 90)])
    assert good.leading == good.estimates["within"]
    assert good.leading.parts == 1


def test_where_little_was_held_out_the_nearest_thing_is_taken() -> None:
    two = assessment([*levels(40, 60), result("latest", "last quarter", 100)])
    assert two.new_condition == two.estimates["one level"]
    assert two.leading == two.estimates["one level"] == two.new_level(0)
    one = assessment([result("latest", "last quarter", 100)])
    assert one.new_condition is None
    assert one.leading == one.estimates["later"]
    nothing = assessment([])
    assert nothing.leading is None
    healthy_only = assessment([replace(result("latest", "last quarter", 1), confusion=((5, 0), (0, 0)))])
    assert healthy_only.estimates == {}


def test_the_median_delay_is_over_the_alarms_that_came() -> None:
    found = result("level", "one", 100, verdicts=100).joined
    assert found is not None
    assert median_delay([found, replace(found, delays=(2.5, None))]) == 1.5
    assert median_delay([replace(found, delays=(None,))]) is None
    assert found.accuracy == halves(counts(100))


def test_a_bundle_keeps_its_assessment(tmp_path: Path) -> None:
    toy = ensemble_bundle()
    assert toy.manifest.assessment is None
    told = replace(toy, manifest=replace(toy.manifest, assessment=assessment(levels(80, 100, 90))))
    assert ModelBundle.load(told.save(tmp_path / "told")).manifest == told.manifest
    silent = toy.save(tmp_path / "silent")
    assert "assessment" not in (silent / "manifest.json").read_text()
    assert ModelBundle.load(silent).manifest.assessment is None
