"""The alarm list, maintenance, escalation and evidence in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import DemoService
from tests.service.dashboard.screenshots import browser
from tests.service.dashboard.test_pages import Browsers, audit, open_tab

Open = Callable[..., Page]
TOO_WIDE = "document.documentElement.scrollWidth > window.innerWidth"
WIDE, NARROW = (1400, 900), (390, 844)


@pytest.fixture(params=["light", "dark"])
def themed(service: DemoService, request: pytest.FixtureRequest) -> Iterator[Browsers]:
    with ExitStack() as stack:
        yield Browsers(service, stack.enter_context(browser(theme=request.param)), request.param)


@pytest.fixture(scope="module")
def light(service: DemoService) -> Iterator[Browsers]:
    with ExitStack() as stack:
        yield Browsers(service, stack.enter_context(browser()))


@pytest.fixture
def visit(light: Browsers) -> Iterator[Open]:
    light.errors.clear()
    yield light.visit
    assert light.errors == []


def test_the_pages_fit_in_both_themes(themed: Browsers) -> None:
    for size in (WIDE, NARROW):
        page = themed.visit("/alarms", role="operator", size=size)
        expect(page.locator("body")).to_have_class(re.compile(f"body--{themed.theme}"))
        expect(page.get_by_role("listitem").first).to_contain_text("pump-2")
        assert not page.evaluate(TOO_WIDE)
        page.get_by_label("State", exact=True).click()
        page.get_by_role("option", name="Shelved").click()
        expect(page.get_by_text("No alarm matches; choose another state or period")).to_be_visible()
        assert not page.evaluate(TOO_WIDE)
        page.goto(f"{page.url.removesuffix('/alarms')}/machine/pump-2")
        open_tab(page, "Comparison")
        expect(page.get_by_text("of this machine while it was healthy")).to_be_visible()
        expect(page.locator(".q-tab-panel canvas").first).to_be_visible()
        assert not page.evaluate(TOO_WIDE)
        open_tab(page, "Trends")
        expect(page.get_by_text(re.compile("One step per minute"))).to_be_visible()
        assert not page.evaluate(TOO_WIDE)
    assert themed.errors == []


def test_a_machine_without_data_has_neither_comparison_nor_trends(visit: Open) -> None:
    page = visit("/machine/press-5", role="viewer")
    open_tab(page, "Comparison")
    expect(page.get_by_text("No signal has come since the start of the service")).to_be_visible()
    open_tab(page, "Trends")
    expect(page.get_by_text("No trend yet")).to_be_visible()


def test_an_alarm_that_was_not_delivered_shows_its_escalation(visit: Open) -> None:
    page = visit("/alarms", role="viewer")
    row = page.get_by_role("listitem").filter(has_text="pump-2")
    expect(row).to_contain_text(re.compile("notified: lead; escalated: not delivered to shift within .*refused|failed"))
    receivers = page.get_by_label("Receivers", exact=True)
    expect(receivers).to_contain_text(re.compile("step 1, down since .* notifications? not delivered yet"))
    expect(receivers).to_contain_text("step 2, working")
    # A viewer sees everything and is offered no commands.
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_role("button", name="Add a maintenance")).to_be_hidden()
    row.click()
    page.wait_for_url("**/machine/pump-2")
    expect(page.get_by_label("Alarm", exact=True)).to_contain_text("Notified: lead; escalated: not delivered to shift")


def test_the_comparison_shows_what_rose_over_the_healthy_machine(visit: Open) -> None:
    page = visit("/machine/pump-2", role="viewer")
    open_tab(page, "Comparison")
    found = page.get_by_text(re.compile(r"[ab]: \d+ to \d+ Hz \+1\d\.\d dB, .* dB beyond the healthy scatter"))
    expect(found).to_be_visible()
    expect(page.get_by_role("columnheader", name="Beyond the healthy scatter")).to_be_visible()
    expect(page.get_by_role("button", name="Renew the healthy signal")).to_be_hidden()
    # The lines of the machine's own parts can be drawn at its present speed.
    page.get_by_label("Fault lines").click()
    expect(page.get_by_role("option", name="harmonics of shaft rotor")).to_be_visible()
    page.get_by_role("option", name="envelope: BPFO of drive end").click()
    expect(page.get_by_label("Fault lines")).to_have_value("envelope: BPFO of drive end")


def test_alarms_are_filtered_selected_and_shelved_together(service: DemoService, visit: Open) -> None:
    page = visit("/alarms", role="operator")
    rows = page.get_by_role("listitem")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Shelve").click()
    expect(page.get_by_text("Select alarms first")).to_be_visible()
    page.get_by_label("Machine, such as press-*").fill("fan")
    expect(page.get_by_text("No alarm matches")).to_be_visible()
    page.get_by_label("Machine, such as press-*").fill("pump-?")
    expect(rows).to_have_count(1)
    page.get_by_label("Select case 1 of pump-2").click()
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_role("button", name="Shelve").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Case 1 of pump-2 send no notifications")
    dialog.get_by_label("Reason").fill("wait for the shift")
    dialog.get_by_role("button", name="Shelve").click()
    expect(rows.first).to_contain_text("shelved until")
    page.goto(f"{service.address}/machine/pump-2")
    page.get_by_label("Alarm", exact=True).get_by_role("button", name="Unshelve").click()
    expect(page.get_by_label("Alarm", exact=True)).to_contain_text("unshelved by operator-ann")
    written = audit(service, "shelve")[0]
    assert (written["machine"], written["details"]["case"]) == ("pump-2", 1)  # type: ignore[index] # JSON


def test_maintenance_is_planned_shown_and_ended(service: DemoService, visit: Open) -> None:
    page = visit("/alarms", role="operator")
    card = page.get_by_role("region", name="Maintenance", exact=True)
    expect(card).to_contain_text("No maintenance is planned")
    card.get_by_role("button", name="Add a maintenance").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Machines").fill("fan-*")
    dialog.get_by_label("Reason").fill("new belt")
    dialog.get_by_role("button", name="Add").click()
    expect(card.get_by_role("row", name=re.compile("fan-.* now .* once operator-ann new belt"))).to_be_visible()
    page.goto(f"{service.address}/machine/fan-3")
    expect(page.get_by_label("Alarm", exact=True)).to_contain_text("Under maintenance until")
    page.goto(f"{service.address}/alarms")
    card.get_by_role("button", name="End a maintenance").click()
    page.get_by_role("dialog").get_by_role("button", name="End", exact=True).click()
    expect(card).to_contain_text("No maintenance is planned")
    assert audit(service, "add maintenance")[0]["who"] == "operator-ann"
    assert audit(service, "end maintenance")[0]["result"] == "ok"
