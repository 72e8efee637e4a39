"""Pictures of the dashboard, as the README shows them.

``python -m tests.service.dashboard.pictures LINK FOLDER [MACHINE]`` opens a login link as ``cgsa serve`` prints it, and
leaves pictures of the list, of a machine's page in light and dark with all its tabs, and of both on a phone.
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
def browser(size: tuple[int, int] = DESKTOP, light: Literal["light", "dark"] = "light") -> Iterator[BrowserContext]:
    """A browser of its own, with nothing remembered."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=CHROMIUM,
            args=list(FLAGS),
            viewport={"width": size[0], "height": size[1]},
            color_scheme=light,
            timezone_id="Europe/Berlin",
        )
        try:
            yield context
        finally:
            context.close()


def settle(page: Page) -> None:
    """Wait until live data have come in, and charts are drawn."""
    page.wait_for_timeout(3500)


def take(link: str, folder: Path, machine: str | None = None) -> None:
    """Take all pictures of a service that runs."""
    folder.mkdir(parents=True, exist_ok=True)
    base = link.split("/login", maxsplit=1)[0]
    with browser() as context:
        page = context.new_page()
        page.goto(link)
        settle(page)
        page.screenshot(path=folder / "fleet.png")
        name = machine or page.locator(".entry .name").first.inner_text()
        page.goto(f"{base}/machine/{name}")
        settle(page)
        page.screenshot(path=folder / "machine_light.png", full_page=True)
        for tab in ("Signal", "Learning", "Windows", "History"):
            page.get_by_role("tab", name=tab).click()
            settle(page)
            page.screenshot(path=folder / f"{tab.lower()}.png", full_page=True)
        page.get_by_role("tab", name="Course").click()
        page.get_by_label("Switch between dark and light").click()
        settle(page)
        page.screenshot(path=folder / "machine_dark.png", full_page=True)
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        page.goto(base)
        settle(page)
        page.screenshot(path=folder / "phone_fleet.png")
        page.goto(f"{base}/machine/{name}")
        settle(page)
        page.screenshot(path=folder / "phone.png", full_page=True)


if __name__ == "__main__":
    take(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4])
