"""The page of the demo in a browser: nothing overflows, and every way to choose a time shows its values."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from cgsa.report.demo_page import demo_page
from tests.report.demo_stories import made_story
from tests.service.dashboard.screenshots import browser

OVERFLOWING = """() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect();
  const clipped = one.closest("svg, .track, .scroll, .stages, .axis");
  return box.width && !clipped && (box.right > innerWidth + 1 || box.left < -1);
}).map((one) => one.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_page(made_story()).write(tmp_path_factory.mktemp("demo") / "report.html")


@pytest.mark.usefixtures("chromium")
@pytest.mark.parametrize(("width", "theme"), list(product([390, 1400], ["light", "dark"])))
def test_nothing_overflows_and_a_tap_shows_the_values(
    page_file: Path, width: int, theme: Literal["light", "dark"]
) -> None:
    with browser((width, 900), theme) as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(page_file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERFLOWING) == []

        # A tap at three quarters of a ribbon of the approach that is right: 9 of 12 s.
        ribbon = page.locator("#recommended .ribbon.thick")
        ribbon.scroll_into_view_if_needed()
        box = ribbon.bounding_box()
        assert box is not None
        ribbon.click(position={"x": 0.75 * box["width"], "y": box["height"] / 2}, force=True)
        assert page.locator("#at").inner_text() in {"9.0 s", "9.1 s"}
        assert page.locator("#now").inner_text() == "truth: gear wear; torque 5.0 Nm, within the trained range"
        values = page.locator("#values dd")
        assert [text.split("\n")[0] for text in values.all_inner_texts()][1:] == ["unknown ✗", "gear wear"]
        assert page.locator("#values dd.bad").count() in {1, 2}

        # The same by keyboard.
        slider = page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("Home")
        assert page.locator("#at").inner_text() == "0.1 s"
        assert "none yet" in str(slider.get_attribute("aria-valuetext"))
        assert "beyond the trained range" in page.locator("#now").inner_text()
        page.keyboard.press("ArrowRight")
        assert page.locator("#at").inner_text() == "0.2 s"

        # Playing moves on, and pauses.
        page.get_by_role("button", name="Play the stream").click()
        expect(page.locator("#at")).not_to_have_text("0.2 s")
        page.get_by_role("button", name="Pause").click()
        assert page.get_by_role("button", name="Play the stream").is_visible()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 21, 26)"
        assert dark == (theme == "dark")
        assert errors == []
