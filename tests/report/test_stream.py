from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgsa.live.engine import record
from cgsa.metrics.stream import score
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import Source
from cgsa.report.figures import StreamStory
from cgsa.report.page import Page
from cgsa.report.stream import score_header, score_row, stream_page
from tests.machines import RATE, SPEC, bundle, stream_windows


@pytest.fixture(scope="module")
def story() -> StreamStory:
    windows = stream_windows()
    methods = {"source": Source(bundle()), "cgsa": Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5})}
    return StreamStory(
        title="A toy <machine>",
        traces={name: record(method, windows, batch_size=64) for name, method in methods.items()},
        stages=("C1", "C2", "C3"),
        seconds_per_window=SPEC.step / RATE,
        conditions=("torque in Nm",),
    )


def test_report_is_one_page_that_needs_nothing_else(story: StreamStory, tmp_path: Path) -> None:
    path = stream_page(story, ["cgsa demo"], ["A fact."]).write(tmp_path / "report.html")
    text = path.read_text()
    assert "<svg" in text
    assert "A toy &lt;machine&gt;" in text
    assert "<script" not in text
    # Links may stand in an SVG as names of XML languages and inside the page (#id, data:), nowhere else.
    for attribute, target in re.findall(r'(src|href)="([^"]*)"', text):
        assert target.startswith(("#", "data:")), (attribute, target)
    for trace in story.traces.values():
        assert f"{score(trace).average_accuracy:.3f}" in text


def test_rows_fit_their_header(story: StreamStory) -> None:
    for name, trace in story.traces.items():
        assert len(score_row(name, score(trace))) == len(score_header(story.stages))


def test_a_story_without_guidance_can_be_told(story: StreamStory) -> None:
    alone = StreamStory("t", {"source": story.traces["source"]}, story.stages, 0.01, ("torque in Nm",))
    assert "no method looked at it" in stream_page(alone, [], []).html()


def test_text_from_outside_is_escaped() -> None:
    page = Page("a & b")
    page.text("<script>")
    page.code("x < y")
    page.table(["<h>"], [["<c>"]])
    assert "<script>" not in page.html()
    assert "<h>" not in page.html()
    assert "<c>" not in page.html()
