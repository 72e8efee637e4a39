"""The pictures of README and docs are as new as what they show, and each is on a page."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from PIL import Image
from tools import draw_pictures
from tools.draw_pictures import DRAWINGS, Drawing, content_of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
SHOWN = re.compile(r'!\[(?P<words>[^\]]*)\]\((?P<path>[^)]+)\)|<img src="(?P<source>[^"]+)" alt="(?P<alt>[^"]*)"')
"""A picture in Markdown, or in HTML, which can state its width."""


def pictures_of(page: Path) -> list[tuple[str, str]]:
    """Return the words and the path of every picture of a page."""
    found = SHOWN.finditer(page.read_text(encoding="utf-8"))
    return [(one["words"] or one["alt"] or "", one["path"] or one["source"]) for one in found]


def shown_on_pages() -> set[str]:
    """Return the pictures that pages show, from the root of the repository."""
    return {
        str((page.parent / target).resolve().relative_to(ROOT)) for page in PAGES for _, target in pictures_of(page)
    }


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_no_picture_is_older_than_what_it_shows(drawing: Drawing) -> None:
    assert draw_pictures.recorded().get(drawing.name) == drawing.fingerprint(), (
        f"look at the pictures and run python -m tools.draw_pictures {drawing.name}, "
        "with --seen if nothing that they show has changed"
    )


def test_the_pictures_are_those_that_pages_show() -> None:
    drawn = set(chain.from_iterable(one.files for one in DRAWINGS))
    assert drawn == shown_on_pages()
    kept = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "images").iterdir()}
    assert kept - {"docs/images/shown.json"} <= drawn
    assert all((ROOT / one).is_file() for one in drawn)


def test_every_picture_says_what_to_see() -> None:
    for page in PAGES:
        for words, target in pictures_of(page):
            assert len(words.split()) >= 4, f"{page.name}: {target}"


def test_the_film_of_the_readme_is_small_and_repeats() -> None:
    path = ROOT / "docs" / "images" / "serve.gif"
    assert path.stat().st_size < 2e6
    with Image.open(path) as film:
        assert getattr(film, "n_frames", 1) > 10
        assert film.info["loop"] == 0


def test_comments_and_docstrings_do_not_count(tmp_path: Path) -> None:
    bare, described, other = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    bare.write_text("x = 1\ndef f():\n    return x\n")
    described.write_text('"""Docs."""\nx = 1  # one\n"""Why."""\ndef f():\n    """More."""\n    return x\n')
    other.write_text("x = 2\ndef f():\n    return x\n")
    assert content_of(bare) == content_of(described) != content_of(other)


def test_a_change_of_what_is_shown_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw_pictures.outdated() == []
    monkeypatch.setattr(draw_pictures, "content_of", lambda path: path.name.encode())
    assert draw_pictures.outdated() == [one.name for one in DRAWINGS]
