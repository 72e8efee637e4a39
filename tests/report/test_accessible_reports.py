"""No report that a command writes has a serious finding of axe-core, light or dark, wide or narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from cgsa.bench.figures import all_drawings
from cgsa.bench.report import bench_page
from cgsa.bench.result_tables import totals_table
from cgsa.check.run import check_data
from cgsa.evaluation.model_comparison import ModelComparison
from cgsa.explain.explanation import explain_interval
from cgsa.live.store import Store
from cgsa.report.card import card_page
from cgsa.report.check import check_page
from cgsa.report.comparison import comparison_page
from cgsa.report.demo_page import demo_page
from cgsa.report.evaluation import evaluation_page
from cgsa.report.explain import explain_page
from cgsa.report.page import HtmlPage
from cgsa.report.period import period_page
from tests.accessibility import findings_in_every_look
from tests.bench.test_report import RECORDS
from tests.check.clean_set import clean_set
from tests.evaluation.test_model_comparison import STREAMS
from tests.explain.signals import BEARING, noise, recording
from tests.report.demo_stories import made_story
from tests.report.stored_batches import BEGUN, stored_batch
from tests.report.test_card import told
from tests.report.test_evaluation import FOUND
from tests.report.test_explain import SIGNAL
from tests.service.dashboard.screenshots import browser


def check() -> HtmlPage:
    return check_page(check_data(clean_set()), "press-1")


def compare() -> HtmlPage:
    return comparison_page(ModelComparison("a", "b", "data", STREAMS))


def explain() -> HtmlPage:
    found = explain_interval(recording(SIGNAL, "press"), [recording(noise(1), "before")], BEARING)
    return explain_page(*found, None, ["cgsa explain model file"])


def bench() -> HtmlPage:
    tables = [totals_table([row for record in RECORDS for row in record.rows], "gearbox")]
    return bench_page(RECORDS, tables, all_drawings(RECORDS), facts=["A fact."], commands=["cgsa bench x"])


def report(folder: Path) -> HtmlPage:
    with Store(folder / "store.sqlite") as store:
        for batch in range(60):
            store.add_diagnosis(stored_batch(batch, state="health" if batch < 40 else "wear"))
        store.flush()
        with store.read() as snapshot:
            return period_page(snapshot, "press", BEGUN, BEGUN + 61)


PAGES: dict[str, Callable[[], HtmlPage]] = {
    "demo": lambda: demo_page(made_story()),
    "evaluate": lambda: evaluation_page(FOUND),
    "info": lambda: card_page(told(), "model"),
    "check": check,
    "compare": compare,
    "explain": explain,
    "bench": bench,
}
"""The page of each command, made of small results."""


@pytest.fixture(scope="module")
def page(chromium: str) -> Iterator[Page]:
    with browser() as context:
        yield context.new_page()


@pytest.mark.parametrize("command", [*PAGES, "report"])
def test_the_page_of_every_command(command: str, page: Page, tmp_path: Path) -> None:
    made = report(tmp_path) if command == "report" else PAGES[command]()
    page.goto(made.write(tmp_path / "page.html").as_uri())
    # Also what is folded away.
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert list(findings_in_every_look(page)) == []
