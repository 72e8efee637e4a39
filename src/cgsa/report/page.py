"""Self-contained HTML pages from templates: no script, font or image from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from cgsa.errors import DataError
from cgsa.files import replacing


@dataclass(frozen=True)
class HtmlPage:
    """A complete page."""

    html: str

    def write(self, path: Path) -> Path:
        """Write the page atomically."""
        with replacing(path, DataError) as fresh:
            fresh.write_text(self.html, encoding="utf-8")
        return path


def render_page(template: str, **values: object) -> HtmlPage:
    """Fill a template of this package; all text is escaped unless the template marks it safe."""
    return HtmlPage(_templates().get_template(template).render(values))


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("cgsa.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Keep the order of keys, and refuse NaN, which is not JSON.
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return templates
