"""Film the dashboard for README and docs: a run of ``cgsa serve --demo`` in a browser.

    python -m tools.film_dashboard FOLDER [IMAGES]

FOLDER keeps the recordings and the model of the demo, so that a second run takes two minutes. Written
are ``serve.gif``, in which a tooth of a gearbox cracks, and pictures of the list of machines and of a machine's page.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect
from tests.cli.test_serve import free_port
from tests.service.dashboard.screenshots import browser

IMAGES = Path(__file__).parent.parent / "docs" / "images"
MACHINE = "gearbox-2"
FILM, STILLS = (1200, 1180), (1360, 1100)
"""Sizes of the page in pixels."""
FILM_WIDTH = 900
STEP, LONGEST, AFTER_ALARM, AFTER_TAB = 1.5, 150.0, 12, 8
"""Seconds between frames, seconds until an alarm at the latest; frames after it, and on the page that explains it."""
FRAME_MS, LAST_MS, COLOURS = 160, 2500, 128
PREPARATION = 1800.0


@contextmanager
def running_demo(folder: Path) -> Iterator[str]:
    """Run the demo from its beginning; yield the link that logs in."""
    shutil.rmtree(folder / "plant", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "cgsa", "serve", "--demo", "--folder", str(folder), "--port", str(free_port())]
    log = folder / "service.log"
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)  # noqa: S603 - cgsa itself
        try:
            end = time.monotonic() + PREPARATION
            while "press Ctrl-C" not in log.read_text():
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(log.read_text())
                time.sleep(0.2)
            yield (folder / "plant" / "login-link").read_text(encoding="utf-8").strip()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def film(page: Page) -> list[Image.Image]:
    """Return pictures of a machine's page: healthy, then with an alarm, then with what the spectrum says of it."""
    frames: list[Image.Image] = []

    def take(count: int) -> None:
        for _ in range(count):
            taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            size = (FILM_WIDTH, round(FILM_WIDTH * taken.height / taken.width))
            frames.append(taken.resize(size, Image.Resampling.LANCZOS))
            page.wait_for_timeout(1000 * STEP)

    alarm = page.get_by_label("Alarm", exact=True)
    expect(alarm).to_contain_text("No open case", timeout=60_000)
    end = time.monotonic() + LONGEST
    while "Case 1" not in alarm.inner_text():
        if time.monotonic() > end:
            raise SystemExit(f"{MACHINE} raised no alarm within {LONGEST:g} s")
        take(1)
    take(AFTER_ALARM)
    page.get_by_role("tab", name="Explanation").click()
    page.wait_for_timeout(3000)
    page.get_by_role("tab", name="Explanation").scroll_into_view_if_needed()
    take(AFTER_TAB)
    return frames


def write_film(frames: Sequence[Image.Image], path: Path) -> None:
    """Write frames as a GIF that repeats; all share one palette, so that what does not change costs nothing."""
    whole = Image.new("RGB", (frames[0].width, frames[0].height * 3))
    for place, frame in enumerate((frames[0], frames[len(frames) // 2], frames[-1])):
        whole.paste(frame, (0, place * frame.height))
    palette = whole.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(small) - 1) + [LAST_MS]
    small[0].save(path, save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)


def still(page: Page, path: Path) -> None:
    """Save the page as a small picture."""
    taken = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    taken.quantize(128, Image.Quantize.MAXCOVERAGE, kmeans=1).save(path, optimize=True)


def draw(folder: Path, images: Path) -> None:
    """Film the demo and take its pictures."""
    with running_demo(folder) as link, browser(FILM) as context:
        page = context.new_page()
        page.goto(link)
        base = link.partition("/login")[0]
        page.goto(f"{base}/machine/{MACHINE}")
        expect(page.get_by_label("Alarm", exact=True)).to_be_visible(timeout=30_000)
        write_film(film(page), images / "serve.gif")
        page.set_viewport_size({"width": STILLS[0], "height": 340})
        page.goto(base)
        expect(page.locator(".entry")).to_have_count(3, timeout=30_000)
        page.wait_for_timeout(5000)
        still(page, images / "serve-fleet.png")
        page.set_viewport_size({"width": STILLS[0], "height": STILLS[1]})
        page.goto(f"{base}/machine/gearbox-1")
        page.wait_for_timeout(8000)
        still(page, images / "serve-machine.png")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGES)
