"""Accessibility of a page in a browser, by the rules of axe-core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

from playwright.sync_api import Page

from tests.node_packages import node_package

PACKAGE = "axe-core@4.14.1"
WIDTHS, HEIGHT = (1400, 390), 900
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RUN = """async () => {
  // A figure may have thousands of strokes, in which no rule looks for anything.
  document.querySelectorAll('figure svg').forEach(one => one.replaceChildren());
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.map(one => ({
    rule: one.id, impact: one.impact, help: one.help,
    nodes: one.nodes.map(node => node.html.slice(0, 160) + ' | ' + (node.any.concat(node.all)[0]?.message ?? '')),
  }));
}"""


@cache
def axe_source() -> str:
    """Return the script of axe-core, or skip."""
    folder = node_package(PACKAGE, "the accessibility of pages is left out")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def serious_findings(page: Page) -> list[str]:
    """Return what axe-core finds serious or critical on a page as it is, one line per element."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe_source())
    found: list[dict[str, Any]] = page.evaluate(RUN)
    return [
        f"{one['impact']}, {one['rule']}: {one['help']}: {node}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


def findings_in_every_look(page: Page, settle: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield the serious findings of a page, light and dark, wide and narrow; ``settle`` waits until it is drawn."""
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            settle()
            for finding in serious_findings(page):
                yield f"{theme}, {width} px: {finding}"
