"""Screenshots of the dashboard for the README.

``python -m tests.service.dashboard.screenshots LINK FOLDER [MACHINE]`` opens a login link, as ``cgsa serve`` prints it,
and saves screenshots of the list, of all tabs of a machine's page in light and dark, and of both pages on a phone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import BrowserContext, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1360, 900), (360, 780)


@contextmanager
def browser(size: tuple[int, int] = DESKTOP, theme: Literal["light", "dark"] = "light") -> Iterator[BrowserContext]:
    """Start a browser with an empty profile."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=CHROMIUM,
            args=list(FLAGS),
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            timezone_id="Europe/Berlin",
        )
        try:
            yield context
        finally:
            context.close()


def wait_for_data(page: Page) -> None:
    """Wait until live data have arrived and charts are drawn."""
    page.wait_for_timeout(3500)


def take_screenshots(link: str, folder: Path, machine: str | None = None) -> None:
    """Take all screenshots of a running service."""
    folder.mkdir(parents=True, exist_ok=True)
    base = link.split("/login", maxsplit=1)[0]
    with browser() as context:
        page = context.new_page()
        page.goto(link)
        wait_for_data(page)
        page.screenshot(path=folder / "fleet.png")
        name = machine or page.locator(".entry .name").first.inner_text()
        page.goto(f"{base}/machine/{name}")
        wait_for_data(page)
        page.screenshot(path=folder / "machine_light.png", full_page=True)
        for tab in ("Signal", "Learning", "Windows", "History"):
            page.get_by_role("tab", name=tab).click()
            wait_for_data(page)
            page.screenshot(path=folder / f"{tab.lower()}.png", full_page=True)
        page.get_by_role("tab", name="Timeline").click()
        page.get_by_label("Switch between dark and light").click()
        wait_for_data(page)
        page.screenshot(path=folder / "machine_dark.png", full_page=True)
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        page.goto(base)
        wait_for_data(page)
        page.screenshot(path=folder / "phone_fleet.png")
        page.goto(f"{base}/machine/{name}")
        wait_for_data(page)
        page.screenshot(path=folder / "phone.png", full_page=True)


if __name__ == "__main__":
    take_screenshots(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4])
