from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import BundleError
from cgsa.nn.assessment import Assessment, KnownSpeed
from cgsa.nn.bundle import Manifest
from cgsa.nn.change import ChangeAssessment, HeldOutHealthy
from cgsa.report.card import card_page
from cgsa.report.card_tables import (
    class_table,
    confusion_table,
    estimate_table,
    member_table,
    part_table,
    small_print,
)
from tests.assessments import assessment, levels, result
from tests.machines import ensemble_manifest, healthy_bundle

MANIFEST = replace(ensemble_manifest(), classes=("health", "wear <$>"))
FOUND = assessment(
    [
        *levels(80, 100, 60, 90),
        result("specimen", "specimen 1", 40),
        result("latest", "last quarter of every recording", 100, verdicts=90),
    ]
)


def told(found: Assessment = FOUND) -> Manifest:
    return replace(MANIFEST, assessment=found)


def test_the_card_is_self_contained_and_begins_with_the_words(tmp_path: Path) -> None:
    text = card_page(told(), "runs/<model>").write(tmp_path / "card.html").read_text()
    assert "Model runs/&lt;model&gt;" in text
    assert "wear &lt;$&gt;" in text
    assert text.index("Do not rely on this") < text.index("<svg") < text.index("small>In training, 0.987")
    assert text.count("<svg") == 2
    assert "<script" not in text
    for attribute, target in re.findall(r'(src|href)="([^"]*)"', text):
        assert target.startswith(("#", "data:")), (attribute, target)


def test_a_model_of_which_nothing_was_held_out_has_a_card() -> None:
    text = card_page(told(assessment([])), "model").html
    assert "<svg" not in text
    assert "training holds too little" in text


def test_a_model_of_healthy_recordings_has_a_card_that_says_what_is_unknown() -> None:
    results = (
        HeldOutHealthy("speed 600 rpm", 40, 0.25),
        HeldOutHealthy("speed 1200 rpm", 40, 0.0),
        HeldOutHealthy("load <1>", 80, 1.0, covered=False),
    )
    told = replace(healthy_bundle().manifest, healthy_only=ChangeAssessment(results, "speed 600 rpm"))
    text = " ".join(card_page(told, "runs/<model>").html.split())
    assert "Model runs/&lt;model&gt;" in text
    assert "0.125 of the healthy windows were taken for changed" in text
    assert "most at speed 600 rpm (0.25)" in text
    assert "without load &lt;1&gt;, 1.00 of the healthy windows" in text
    assert "when training did without it, here speed 600 rpm." in text
    assert "there is no detection rate and no AUROC" in text
    assert "load &lt;1&gt; (whole level)" in text
    assert "torque, " in text


def test_a_bundle_that_does_not_say_has_no_card() -> None:
    with pytest.raises(BundleError, match="objective 'ensemble'"):
        card_page(MANIFEST, "model")


def test_the_leading_estimate_comes_first() -> None:
    table = estimate_table(FOUND)
    assert [row[0] for row in table.rows] == [
        "another specimen",
        "another level, between trained ones",
        "a level beyond the trained ones",
        "later in the same recordings",
    ]
    assert table.rows[0] == ("another specimen", "", "0.700", "1")
    assert table.rows[1][1:] == ("0.900", "0.900", "2")


def test_specimens_are_called_by_what_they_are() -> None:
    found = FOUND.with_specimens("run")
    assert estimate_table(found).rows[0][0] == "another run"
    assert part_table(found).rows[4][0] == "run 1"


def test_a_part_has_verdicts_alarms_and_false_alarms() -> None:
    rows = part_table(FOUND).rows
    assert rows[0] == ("speed 600 rpm (outermost)", "0.900", "0.900", "2 of 3, 1 s", "1 in 30 s")
    assert rows[4] == ("specimen 1", "", "0.700", "", "")
    two = part_table(assessment(levels(50, 50))).rows
    assert two[0][0] == "speed 600 rpm (by the other)"
    joined = FOUND.results[0].joined
    assert joined is not None
    silent = replace(FOUND.results[0], joined=replace(joined, delays=(None, None)))
    assert part_table(assessment([silent])).rows[0][3] == "none in 2 s"


def test_classes_and_confusion_are_those_of_the_leading_parts() -> None:
    found = class_table(FOUND, MANIFEST.classes)
    assert found is not None
    assert found.rows == (("health", "", "1.000", ""), ("wear <$>", "", "0.400", "health (0.60)"))
    confusion = confusion_table(FOUND, MANIFEST.classes)
    assert confusion is not None
    assert confusion.header == ("class", "1", "2")
    assert confusion.rows == (("1 health", "1.00", ""), ("2 wear <$>", "0.60", "0.40"))
    assert class_table(assessment([]), MANIFEST.classes) is None
    assert confusion_table(assessment([]), MANIFEST.classes) is None


def test_the_heaviest_candidate_comes_first() -> None:
    assert member_table(FOUND).rows == (("envelope 64, lda", "0.750", ""), ("spectrum 512, lda", "0.250", "0.900"))


def test_the_small_print_says_what_a_known_speed_changes() -> None:
    used = small_print(replace(FOUND, known_speed=KnownSpeed(0.9, 0.75, used=True)), MANIFEST)[-1]
    assert "it is used: 0.900 of the windows are right then at the held-out parts, 0.750 without it" in used
    unused = small_print(replace(FOUND, known_speed=KnownSpeed(0.7, 0.75, used=False)), MANIFEST)[-1]
    assert unused.startswith("A known speed is not used")


def test_the_small_print_says_how_far_apart_judged_windows_are() -> None:
    assert len(small_print(replace(FOUND, seconds_between=0.016), MANIFEST)) == 2
    assert (
        "0.5 s apart; a stream has one every 0.016 s" in small_print(replace(FOUND, seconds_between=0.5), MANIFEST)[-1]
    )
