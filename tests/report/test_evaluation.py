from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cgsa.report.evaluation import evaluation_page
from cgsa.report.evaluation_tables import headline, overall_table, point_table, stream_table, truth_table
from cgsa.report.evaluation_values import evaluation_values
from tests.evaluation.made_results import evaluation, stream

FOUND = evaluation(
    stream("healthy", false_alarms=2),
    stream("worn", delay=3.0),
    stream("worn", "speed 900 rpm", trained=True),
    stream("healthy", "speed 900 rpm", trained=True),
)


def test_the_headline_counts_new_recordings_first() -> None:
    first, second, warning = headline(FOUND)
    assert first == (
        "Recordings not trained on: 0.900 of the verdicts were right, 1 of 1 faults raised an alarm, 2 false alarms in "
        "1800 s (4 per hour) on the healthy machine."
    )
    assert second.startswith("Recordings trained on: 0.900")
    assert warning.startswith("What the model was trained on says little")
    assert "--leave-out" in headline(evaluation(stream("worn", trained=True)))[-1]
    assert headline(evaluation(stream("worn"), left_out=True))[0].startswith("Where they were left out of training")


def test_tables_have_one_row_per_condition_class_and_recording() -> None:
    group = FOUND.groups[0]
    assert [row[0] for row in point_table(group, "new").rows] == ["speed 600 rpm"]
    assert truth_table(group, FOUND, "new").rows == (
        ("healthy", "1", "0.900", "0.90", "0.10", ""),
        ("worn", "1", "0.900", "0.10", "0.90", ""),
    )
    assert stream_table(group, "new").rows[1][5:] == ("worn", "3 s", "")
    assert {row[0]: row[1] for row in overall_table(FOUND).rows}["median delay"] == "3 s"


def test_values_are_json() -> None:
    values = json.loads(json.dumps(evaluation_values(FOUND), allow_nan=False))
    assert values["groups"]["not_trained_on"]["false_alarms_per_hour"] == pytest.approx(4)
    assert values["groups"]["not_trained_on"]["confusion"] == [[9, 1], [1, 9]]
    assert values["groups"]["trained_on"]["conditions"]["speed 900 rpm"]["faults"] == 1
    assert len(values["recordings"]) == 4


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    text = evaluation_page(FOUND).write(tmp_path / "page.html").read_text()
    assert text.count("<svg") == 6
    assert not re.search(r'(?:src|href)="https?:', text)
    assert "Reliability: recordings that the model was not trained on" in text
