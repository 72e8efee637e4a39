"""The files around the package agree with it and with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import cgsa

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## \[(\S+)\] - (\d{4}-\d{2}-\d{2})$", CHANGELOG, flags=re.MULTILINE)


def test_the_version_has_one_home_and_the_citation_and_the_changelog_follow_it() -> None:
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/cgsa/__init__.py"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, flags=re.MULTILINE) == [cgsa.__version__]
    dates = re.findall(r"^date-released: (\S+)$", citation, flags=re.MULTILINE)
    assert RELEASES[0] == (cgsa.__version__, *dates)


def test_releases_in_the_changelog_are_dated_and_newest_first() -> None:
    headings = re.findall(r"^## .*$", CHANGELOG, flags=re.MULTILINE)
    assert [heading for heading in headings if heading != "## [Unreleased]"] == [f"## [{v}] - {d}" for v, d in RELEASES]
    dates = [date for _, date in RELEASES]
    assert dates == sorted(dates, reverse=True)


def test_the_package_declares_its_types() -> None:
    assert (Path(cgsa.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["project"]["classifiers"]


def test_commit_hooks_run_the_linters_of_make_lint() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    assert recipe is not None
    wanted = {line.strip().removeprefix("$(BIN)/").replace(" --check", "") for line in recipe[1].splitlines()}
    called = {entry.removesuffix(" --fix") for entry in re.findall(r"entry: \.venv/bin/(.*)", hooks)}
    assert called == wanted


def test_the_workflow_runs_the_script_of_the_repository() -> None:
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert "- run: .ci/run\n" in workflow
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f'python: ["{oldest}"' in workflow
