from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from cgsa.report.demo_page import NOT_YET, DemoStory, demo_page, state_kinds, verdicts
from tests.report.demo_stories import made_story


@pytest.fixture(scope="module")
def story() -> DemoStory:
    return made_story()


@pytest.fixture(scope="module")
def html(story: DemoStory) -> str:
    return demo_page(story).html


def test_the_page_is_self_contained_and_escaped(story: DemoStory, html: str, tmp_path: Path) -> None:
    assert demo_page(story).write(tmp_path / "report.html").read_text() == html
    assert "A &lt;toy&gt; machine" in html
    assert "Measured &amp; counted." in html
    assert "<break>" not in html
    for attribute, target in re.findall(r'(src|href)="([^"]*)"', html):
        assert target.startswith(("#", "data:")), (attribute, target)


def test_the_page_shows_the_figures_of_every_approach(story: DemoStory, html: str) -> None:
    assert story.outcome == "Only the recommended profile is right; the frozen network and the paper's CGSA are not."
    assert story.outcome in unescape(html)
    assert story.headline in unescape(html)
    cards = html.split('<section class="card')[2:]
    for card, found in zip(cards, story.figures, strict=True):
        assert f"<dd>{found.verdicts_right:.0%}<small>single decisions {found.decisions_right:.0%}" in card
        assert f"<dd>{found.false_alarms}<small>" in card
        assert ("✓ right" in card) == found.right
    assert [card.startswith(" right") for card in cards] == [False, False, True]


def test_what_a_screen_reader_gets_is_what_is_drawn(html: str) -> None:
    labels = re.findall(r'role="img" aria-label="([^"]*)"', html)
    assert "Truth: health from 0.0 to 6.0 s; gear wear from 6.0 to 12.0 s" in " ".join(labels[1].split())
    [ours] = [label for label in labels if label.startswith("Recommended, verdict")]
    assert "gear wear from 6.6 to 12.0 s" in ours
    assert "health (wrong) from 6.0 to 6.6 s" in ours
    rows = re.findall(r"<tr><td>(\d+)</td><td>([\d.]+)</td><td>([^<]*)</td>", html)
    assert [int(row[0]) for row in rows] == list(range(1, 13))
    assert [row[2] for row in rows] == ["health"] * 6 + ["gear wear"] * 6


def test_the_script_gets_the_same_values(story: DemoStory, html: str) -> None:
    [text] = re.findall(r'id="data">(.*?)</script>', html, re.DOTALL)
    values = json.loads(text)
    assert values["time"][-1] == 12.0
    assert values["trained"] == [at <= 15.5 for at in values["condition"]]
    ours = values["approaches"][2]["verdict"]
    assert ours.count(NOT_YET) == 10
    assert ours == verdicts(story.runs[2], story.truth)[1::2].tolist()
    assert {len(one) for key, one in values["approaches"][0].items() if key in {"verdict", "alarm"}} == {
        len(values["time"])
    }


def test_details_are_left_out_where_nothing_has_them(story: DemoStory, html: str) -> None:
    assert "residual response and queue" in html
    assert "It used 50% of the windows for adaptation" in html
    assert "What changed with the fault" not in html
    frozen = replace(story, runs=[story.runs[0], story.runs[2]], figures=[story.figures[0], story.figures[2]])
    assert "residual response and queue" not in demo_page(frozen).html


def test_a_stream_without_a_fault_has_a_page(story: DemoStory) -> None:
    healthy = replace(story, truth=replace(story.truth, label=np.zeros_like(story.truth.label)))
    assert 'class="onset"' not in demo_page(healthy).html


def test_the_fault_that_sets_in_has_one_colour() -> None:
    assert state_kinds(5, 2, unknown=True) == ["healthy", "other1", "fault", "other2", "unknown"]
    assert state_kinds(6, 1, unknown=False) == ["healthy", "fault", "other1", "other2", "other3", "other1"]


def test_a_wavering_approach_is_described_in_short(html: str) -> None:
    [label] = re.findall(r'aria-label="Left alone, verdict: ([^"]*)"', html)
    assert re.search(r"changes \d+ times; the table below", label)
