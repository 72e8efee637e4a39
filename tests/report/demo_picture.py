"""The picture of the demo for README and docs, from the page of a real run.

``cgsa demo`` writes the page; ``python -m tests.report.demo_picture demo/report.html docs/images/demo.png`` takes the
picture of its upper part.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from tests.service.dashboard.screenshots import browser

WIDTH, HEIGHT, MARGIN = 1120, 1400, 14
COLOURS = 128


def take_picture(report: Path, picture: Path) -> None:
    """Save the part of a page from its first line to the last approach."""
    with browser((WIDTH, HEIGHT)) as context:
        page = context.new_page()
        page.goto(report.resolve().as_uri())
        # Without the panel of values and the line of the time that it shows.
        page.evaluate("document.querySelector('.reading').hidden = true; document.body.style.removeProperty('--at')")
        first, last = (page.locator(one).bounding_box() for one in ("h1", "#recommended"))
        if first is None or last is None:
            raise SystemExit(f"{report}: is no page of cgsa demo")
        top = max(0.0, first["y"] - MARGIN)
        height = last["y"] + last["height"] + MARGIN - top
        taken = page.screenshot(full_page=True, clip={"x": 0, "y": top, "width": WIDTH, "height": height})
    small = Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1)
    small.save(picture, format="png", optimize=True)


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]), Path(sys.argv[2]))
