"""The pages in a real browser: what users see and can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from cgsa.service.rights import Role
from tests.service.dashboard.conftest import DemoService
from tests.service.dashboard.screenshots import DESKTOP, PHONE, browser

expect.set_options(timeout=30_000)

Visit = Callable[..., Page]
TABS = ("Timeline", "Trends", "Comparison", "Signal", "Explanation", "Learning", "Windows", "History")


class Browsers:
    """A browser, the errors and warnings of its pages, and the hosts they contacted."""

    def __init__(self, service: DemoService, context: BrowserContext, theme: str = "light") -> None:
        self._service = service
        self._context = context
        self.theme = theme
        self.errors: list[str] = []
        self.hosts: set[str] = set()

    def visit(self, path: str = "/", role: Role = "admin", size: tuple[int, int] = DESKTOP) -> Page:
        """Open a page in a role, without cookies of earlier pages."""
        self._context.clear_cookies()
        for old in self._context.pages[1:]:
            old.close()
        page = self._context.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.on("console", lambda message: self._on_console(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(self._service.login_link(role))
        expect(page.get_by_role("banner")).to_be_visible()
        if path != "/":
            page.goto(f"{self._service.address}{path}")
        return page

    def _on_console(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.errors.append(text)


@pytest.fixture(scope="module")
def browsers(service: DemoService) -> Iterator[Browsers]:
    with ExitStack() as stack:
        yield Browsers(service, stack.enter_context(browser()))


@pytest.fixture
def visit(service: DemoService, browsers: Browsers) -> Iterator[Visit]:
    browsers.errors.clear()
    yield browsers.visit
    assert browsers.errors == []
    assert browsers.hosts - {""} == {urlsplit(service.address).netloc}


def entry(page: Page, machine: str) -> Locator:
    return page.locator(".entry", has_text=machine)


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def audit(service: DemoService, what: str) -> list[dict[str, object]]:
    headers = {"Authorization": f"Bearer {service.tokens['admin']}"}
    answer = httpx.get(f"{service.address}/api/audit", headers=headers, timeout=20).raise_for_status().json()
    rows = next(value for value in answer.values() if isinstance(value, list))
    return [row for row in rows if row["what"] == what]


def test_the_login_leads_back_to_the_requested_page(service: DemoService, visit: Visit) -> None:
    page = visit()
    page.wait_for_load_state("networkidle")  # whoever has logged out gets no file of a page any more
    page.get_by_label("Log out").click()
    page.wait_for_url("**/login")
    page.goto(f"{service.address}/machine/fan-3")
    assert page.url == f"{service.address}/login?next=%2Fmachine%2Ffan-3"
    page.get_by_label("Your token").fill(service.tokens["viewer"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/machine/fan-3")
    expect(page.get_by_role("banner").get_by_text("viewer-ann, viewer")).to_be_visible()


def test_markup_in_a_page_runs_no_script(visit: Visit, browsers: Browsers) -> None:
    page = visit()
    page.wait_for_load_state("networkidle")
    page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = 1';
            document.body.append(script);
            const image = document.createElement('div');
            image.innerHTML = '<img src="/missing" onerror="window.ran = 2">';
            document.body.append(image);
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in browsers.errors)
    browsers.errors.clear()


def test_the_list_is_ranked_shows_the_status_and_can_be_filtered(visit: Visit) -> None:
    page = visit(role="viewer")
    names = page.locator(".entry .name")
    expect(names).to_have_text(["pump-2", "mill-4", "press-5", "fan-3", "pump-1"])
    expect(entry(page, "pump-2").locator(".badge")).to_contain_text(re.compile("Alarm|Acknowledged"))
    expect(entry(page, "mill-4")).to_contain_text(re.compile(r"no data for .* s: flat line on a"))
    expect(entry(page, "press-5")).to_contain_text("no data received yet")
    expect(entry(page, "pump-1")).to_contain_text("Healthy")
    expect(entry(page, "pump-1").locator("polyline")).to_have_count(1)
    page.get_by_role("button", name="Healthy 2").click()
    expect(names.filter(visible=True)).to_have_text(["fan-3", "pump-1"])
    page.get_by_label("Find a machine").fill("PUMP")
    expect(names.filter(visible=True)).to_have_text(["pump-1"])
    page.get_by_role("button", name="All 5").click()
    expect(names.filter(visible=True)).to_have_text(["pump-2", "pump-1"])
    page.get_by_label("Find a machine").fill("nothing like it")
    expect(page.get_by_text("No machine matches")).to_be_visible()


def test_a_machine_can_be_opened_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit(role="viewer")
    expect(page.locator(".entry")).to_have_count(5)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('entry')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/machine/pump-2")


def test_the_page_of_a_machine_shows_the_evidence_of_its_verdict(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Healthy"))
    expect(page.get_by_text(re.compile(r"Learning: \d+ of 256 windows trusted")).first).to_be_visible()
    expect(page.locator(".q-tab-panel canvas").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"100 % within the range of the training data"))).to_be_visible()
    open_tab(page, "Signal")
    expect(page.get_by_text(re.compile(r"block of 200 ms at \d\d:\d\d:\d\d: RMS"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"Hann window, resolution 5 Hz, mean power of"))).to_be_visible()
    open_tab(page, "Learning")
    expect(page.get_by_text("method cgsa; model toy, trained with objective cal")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Change since previous")).to_be_visible()
    open_tab(page, "Windows")
    expect(page.get_by_text("learnt", exact=True).first).to_be_visible()
    expect(page.get_by_role("columnheader", name="Residual response to torque")).to_be_visible()
    open_tab(page, "History")
    expect(page.get_by_text("There has never been an alarm")).to_be_visible()


def test_the_page_of_a_machine_shows_its_levels_beside_the_verdict(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    card = page.get_by_label("Levels", exact=True)
    expect(card.get_by_role("columnheader", name="Velocity")).to_be_visible()
    expect(card.get_by_text("velocity 500 mm/s")).to_be_visible()
    expect(card.get_by_text("within limits").first).to_be_visible()
    expect(card.get_by_text("Velocity is the RMS from 10 to 390.6 Hz")).to_be_visible()


def test_times_are_in_the_time_zone_of_the_browser(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    open_tab(page, "Signal")
    hour = page.evaluate("new Date().getHours()")
    # A new hour may begin meanwhile; the hour before is that of UTC in winter.
    hours = f"{hour:02d}|{(hour + 1) % 24:02d}"
    # The service may still be diagnosing what its machines did before it was started.
    shown = page.get_by_text(re.compile(rf"block of 200 ms at ({hours}):"))
    expect(shown).to_be_visible(timeout=30_000)


def test_nothing_moves_while_data_arrive(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    expect(page.get_by_text(re.compile(r"within the range of the training data"))).to_be_visible()
    page.wait_for_timeout(1500)
    places = (
        "[...document.querySelectorAll('.card, .q-tab, .chart')].map(e => Math.round(e.getBoundingClientRect().top))"
    )
    before = page.evaluate(places)
    for _ in range(4):
        page.wait_for_timeout(500)
        assert page.evaluate(places) == before


def test_an_alarm_is_acknowledged_commented_labelled_and_shelved(service: DemoService, visit: Visit) -> None:
    page = visit("/machine/pump-2", role="operator")
    alarm = page.get_by_label("Alarm", exact=True)
    expect(alarm).to_contain_text("Case 1, medium: unknown")
    expect(alarm).to_contain_text("active, unacknowledged")
    alarm.get_by_role("button", name="Acknowledge").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Remark").fill("on my way <b>now</b>")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Acknowledged"))
    expect(alarm).to_contain_text("acknowledged by operator-ann: on my way <b>now</b>")
    expect(alarm.get_by_role("button", name="Acknowledge")).to_be_hidden()
    alarm.get_by_role("button", name="Comment").click()
    dialog.get_by_role("button", name="Comment").click()
    expect(dialog).to_contain_text("a text is required")
    dialog.get_by_label("Comment").fill("bearing is hot")
    dialog.get_by_role("button", name="Comment").click()
    expect(alarm).to_contain_text("operator-ann: bearing is hot")
    alarm.get_by_role("button", name="Label").click()
    dialog.get_by_label("Another state").fill("loose foot")
    dialog.get_by_role("button", name="Label").click()
    expect(alarm).to_contain_text("operator-ann found: loose foot")
    alarm.get_by_role("button", name="Shelve").click()
    dialog.get_by_label("Reason").fill("waiting for parts")
    dialog.get_by_role("button", name="Shelve").click()
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Shelved"))
    alarm.get_by_role("button", name="Unshelve").click()
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Acknowledged"))
    (written,) = audit(service, "acknowledge")
    assert (written["who"], written["machine"], written["result"]) == ("operator-ann", "pump-2", "ok")


def test_the_signal_around_an_alarm_can_be_chosen(visit: Visit) -> None:
    page = visit("/machine/pump-2", role="viewer")
    open_tab(page, "Signal")
    expect(page.get_by_text(re.compile(r"block of 200 ms at"))).to_be_visible()
    page.get_by_label("Time", exact=True).click()
    # A case that was raised again has several.
    page.get_by_role("option", name=re.compile(r"Case 1, \d\d:\d\d:\d\d")).first.click()
    expect(page.get_by_text(re.compile(r"s around the alarm of case 1, from \d\d:\d\d:\d\d: RMS"))).to_be_visible()
    page.get_by_label("Time", exact=True).click()
    page.get_by_role("option", name="Now").click()
    expect(page.get_by_text(re.compile(r"block of 200 ms at"))).to_be_visible()


def test_learning_is_frozen_compared_and_rolled_back(service: DemoService, visit: Visit) -> None:
    page = visit("/machine/fan-3")
    open_tab(page, "Learning")
    page.get_by_role("button", name="Freeze learning").click()
    expect(page.get_by_text("Learning frozen: windows are diagnosed").first).to_be_visible()
    page.get_by_role("button", name="Resume learning").click()
    expect(page.get_by_role("button", name="Freeze learning")).to_be_visible()
    rows = page.locator(".q-tab-panel tbody tr")
    # Freezing, resuming and some time of learning save a state each.
    expect(rows.nth(2)).to_be_visible(timeout=60_000)
    for field, row in (("State", 0), ("With", 1)):
        page.get_by_label(field, exact=True).click()
        page.get_by_role("option").nth(row).click()
        expect(page.get_by_role("option")).to_have_count(0)
    page.get_by_role("button", name="Compare").click()
    # Two states from a frozen period may be identical.
    expect(page.get_by_role("columnheader", name=re.compile("Relative change|Difference"))).to_be_visible()
    page.get_by_role("button", name="Roll back").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"Roll back to state \d+"))
    dialog.get_by_label("Reason").fill("learnt nonsense")
    dialog.get_by_role("button", name="Roll back").click()
    open_tab(page, "History")
    expect(page.get_by_text(re.compile(r"rolled back to the model of state \d+, by admin-ann"))).to_be_visible()
    (written,) = audit(service, "roll back")
    assert written["result"] == "ok"


def test_a_cancelled_dialog_sends_no_command(service: DemoService, visit: Visit) -> None:
    page = visit("/machine/pump-1")
    open_tab(page, "Learning")
    page.get_by_role("button", name="Reset to the model as trained").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert audit(service, "reset") == []


@pytest.mark.parametrize(("role", "offered"), [("viewer", []), ("operator", ["Freeze learning"])])
def test_only_commands_that_the_role_may_send_are_offered(visit: Visit, role: Role, offered: list[str]) -> None:
    page = visit("/machine/pump-1", role=role)
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Healthy"))
    label = page.get_by_label("Alarm", exact=True).get_by_role("button", name="Label")
    expect(label).to_be_visible(visible=role != "viewer")
    open_tab(page, "Learning")
    expect(page.get_by_role("columnheader", name="State").first).to_be_visible()
    names = ("Freeze learning", "Resume learning", "Reset to the model as trained", "Roll back")
    for name in names:
        # The page may still be catching up with an earlier command.
        expect(page.get_by_role("button", name=name)).to_be_visible(visible=name in offered)


def test_the_theme_follows_the_system_until_the_user_chooses_one(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    body = page.locator("body")
    expect(body).to_have_class(re.compile("body--light"))
    page.emulate_media(color_scheme="dark")
    expect(body).to_have_class(re.compile("body--dark"))
    page.get_by_label("Switch between dark and light").click()
    expect(body).to_have_class(re.compile("body--light"))
    page.reload()
    expect(page.locator(".hero .badge")).to_have_text(re.compile("Healthy"))
    expect(body).to_have_class(re.compile("body--light"))


def test_a_browser_keeps_the_order_lines_of_a_machine(visit: Visit) -> None:
    page = visit("/machine/fan-3", role="viewer")
    open_tab(page, "Signal")
    page.get_by_label("Orders, such as 1, 3.57").fill("one")
    expect(page.get_by_text("expected numbers separated by commas")).to_be_visible()
    page.get_by_label("Orders, such as 1, 3.57").fill("1, 3.5")
    page.get_by_label("Shaft speed, rpm").fill("1500")
    expect(page.get_by_text("Enter a shaft speed to draw lines")).to_have_count(0)
    page.wait_for_function("document.cookie.includes('1500')")
    page.reload()
    open_tab(page, "Signal")
    expect(page.get_by_label("Shaft speed, rpm")).to_have_value("1500")
    expect(page.get_by_label("Orders, such as 1, 3.57")).to_have_value("1, 3.5")


def test_a_phone_shows_everything_without_horizontal_scrolling(visit: Visit) -> None:
    too_wide = "document.documentElement.scrollWidth > window.innerWidth"
    page = visit(size=PHONE)
    expect(page.locator(".entry .name").first).to_be_visible()
    assert not page.evaluate(too_wide)
    entry(page, "pump-2").click()
    page.wait_for_url("**/machine/pump-2")
    for tab in TABS:
        open_tab(page, tab)
        page.wait_for_timeout(300)
        assert not page.evaluate(too_wide), tab


def test_the_page_of_an_unknown_machine_says_so(visit: Visit) -> None:
    page = visit("/machine/nothing")
    expect(page.get_by_text("No machine nothing is monitored")).to_be_visible()
