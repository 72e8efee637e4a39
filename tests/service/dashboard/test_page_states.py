"""What pages show while they load, when the store fails, and how a sender is admitted anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cgsa.errors import DataError
from cgsa.live.intake.refusals import RefusedBlockError
from cgsa.live.store import RowPage, Snapshot, StoredCase
from cgsa.service.login import login_link
from tests.service.dashboard.screenshots import browser
from tests.service.running_service import MACHINE, RunningService, block, running_service


@pytest.fixture(scope="module")
def alarmed(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service in this process, so that a test can make it fail; its machine has an alarm."""
    with running_service(tmp_path_factory.mktemp("states"), dashboard=True) as found:
        found.feed(40)
        yield found


@pytest.fixture(scope="module")
def page(alarmed: RunningService) -> Iterator[Page]:
    with browser() as context:
        found = context.new_page()
        found.goto(login_link(alarmed.url, alarmed.tokens["operator"]))
        expect(found.get_by_role("banner")).to_be_visible()
        yield found


def test_the_list_says_that_it_loads_and_what_failed(
    alarmed: RunningService, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, broken = Event(), Event()
    cases = Snapshot.cases

    def read_slowly(*given: Any, **wanted: Any) -> RowPage[StoredCase]:
        slow.wait(30)
        if broken.is_set():
            raise DataError("store.sqlite: cannot be read (disk I/O error)")
        return cases(*given, **wanted)

    monkeypatch.setattr(Snapshot, "cases", read_slowly)
    page.goto(f"{alarmed.url}/alarms")
    expect(page.get_by_text("Loading the alarms …")).to_be_visible()
    slow.set()
    expect(page.get_by_role("listitem")).to_contain_text(MACHINE)
    expect(page.get_by_text("Loading the alarms …")).to_be_hidden()
    broken.set()
    expect(page.get_by_role("alert")).to_have_text("store.sqlite: cannot be read (disk I/O error)")
    broken.clear()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_sender_that_is_refused_is_admitted_anew(alarmed: RunningService, page: Page) -> None:
    early = replace(block(3), time=block(0).time - 3600)
    for _ in range(3):
        with pytest.raises(RefusedBlockError):
            alarmed.plant.submit(early)
    page.goto(f"{alarmed.url}/machine/{MACHINE}")
    card = page.get_by_label("Monitoring")
    expect(card).to_contain_text("refused")
    card.get_by_role("button", name="Admit the sender anew").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("its clock is right now")
    dialog.get_by_role("button", name="Admit").click()
    # What remains is that this signal is from the past.
    expect(card).not_to_contain_text("refused")
    expect(card.get_by_role("button", name="Admit the sender anew")).to_be_hidden()
    alarmed.plant.submit(early)
    assert alarmed.audit()[0].what == "readmit"
