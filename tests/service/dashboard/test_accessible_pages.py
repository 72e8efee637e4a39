"""No page of the service has a serious finding of axe-core, light or dark, wide or narrow."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from cgsa.service.starting import StartProgress, starting_page
from tests.accessibility import findings_in_every_look
from tests.service.dashboard.conftest import DemoService
from tests.service.dashboard.screenshots import DESKTOP, browser
from tests.service.dashboard.test_pages import TABS, open_tab

DRAWN_AGAIN = 150
"""Milliseconds after which a page has taken over a theme or a width."""


@pytest.fixture(scope="module")
def context(service: DemoService) -> Iterator[BrowserContext]:
    with browser() as found:
        yield found


@pytest.fixture
def page(service: DemoService, context: BrowserContext) -> Iterator[Page]:
    found = context.new_page()
    found.goto(service.login_link("admin"))
    expect(found.get_by_role("banner")).to_be_visible()
    yield found
    found.close()


def settled(page: Page) -> Callable[[], None]:
    return lambda: page.wait_for_timeout(DRAWN_AGAIN)


def test_the_login(service: DemoService, context: BrowserContext) -> None:
    context.clear_cookies()
    page = context.new_page()
    page.goto(f"{service.address}/login")
    assert list(findings_in_every_look(page)) == []


def test_the_page_of_a_preparation(context: BrowserContext) -> None:
    progress = StartProgress("Simulate recordings", "Train a model", "Write the streams")
    progress.update("Train a model", 3, 10)
    with socket.create_server(("127.0.0.1", 0)) as listening, starting_page(listening, progress):
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        expect(page.get_by_text("Train a model")).to_be_visible()
        assert list(findings_in_every_look(page)) == []
        page.close()


@pytest.mark.parametrize(("path", "shown"), [("/", "pump-2"), ("/alarms", "Maintenance")])
def test_the_lists(service: DemoService, page: Page, path: str, shown: str) -> None:
    page.goto(f"{service.address}{path}")
    expect(page.get_by_text(shown).first).to_be_visible()
    assert list(findings_in_every_look(page, settled(page))) == []


@pytest.mark.parametrize("machine", ["pump-2", "mill-4"])
def test_every_tab_of_a_machine(service: DemoService, page: Page, machine: str) -> None:
    page.goto(f"{service.address}/machine/{machine}")
    found: list[str] = []
    for tab in TABS if machine == "pump-2" else TABS[:1]:
        page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
        open_tab(page, tab)
        found += [f"{tab}: {finding}" for finding in findings_in_every_look(page, settled(page))]
    assert found == []
