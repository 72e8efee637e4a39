"""The list of 300 machines of a fleet in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.fleet.many_machines import ALARMS, COUNT
from tests.service.dashboard.screenshots import browser


@pytest.fixture
def link(chromium: str, tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.fleet.many_machines", str(tmp_path)]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (tmp_path / "errors").read_text()
            yield line.strip()
        finally:
            process.terminate()
            process.communicate(timeout=30)
    assert "Traceback" not in (tmp_path / "errors").read_text()


def names(page: Page) -> list[str]:
    return page.locator(".entry:visible .name").all_inner_texts()


def test_three_hundred_machines_are_paged_filtered_and_sorted(link: str) -> None:
    with ExitStack() as stack:
        page = stack.enter_context(browser()).new_page()
        page.goto(link)
        every = page.get_by_role("button", name=f"All {COUNT}")
        expect(every).to_be_visible(timeout=60_000)
        urgent = {"m050", "m150", "m250"}
        assert len(names(page)) == 60
        assert set(names(page)[:ALARMS]) == urgent
        page.get_by_role("button", name="Show 60 more of 240").click()
        expect(page.get_by_role("button", name="Show 60 more of 180")).to_be_visible(timeout=30_000)
        assert len(names(page)) == 120
        page.get_by_role("button", name=f"Alarm {ALARMS}").click()
        expect(page.locator(".entry:visible")).to_have_count(ALARMS, timeout=30_000)
        assert set(names(page)) == urgent
        every.click()
        page.get_by_label("Order").click()
        page.get_by_role("option", name="By name").click()
        expect(page.locator(".entry:visible .name").first).to_have_text("m000", timeout=30_000)
        assert names(page) == [f"m{number:03d}" for number in range(60)]
        page.get_by_label("Order").click()
        page.get_by_role("option", name="Most behind first").click()
        expect(page.locator(".entry:visible .name").first).to_have_text("m006", timeout=30_000)
        page.get_by_label("Find a machine").fill("m29")
        expect(page.locator(".entry:visible")).to_have_count(10, timeout=30_000)
        # The page of a machine shows what there is of it.
        page.locator(".entry:visible", has_text="m293").click()
        expect(page).to_have_url(re.compile("/machine/m293$"))
        expect(page.get_by_role("tab", name="Timeline")).to_be_visible(timeout=30_000)
