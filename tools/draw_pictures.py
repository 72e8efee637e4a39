"""Draw the pictures of README and docs again, and record what they show.

    python -m tools.draw_pictures             # those older than what they show
    python -m tools.draw_pictures --all       # every one
    python -m tools.draw_pictures --list      # which they are, and which are out of date
    python -m tools.draw_pictures demo        # one by its name
    python -m tools.draw_pictures demo --seen # nothing to see has changed: only record that

Every picture comes from a real run. ``docs/images/shown.json`` has a fingerprint of what each one shows: the code that
draws it, without its comments and docstrings, and the settings, templates and results that it draws.
``tests/test_pictures.py`` fails while a picture is older than that. What lies behind a run without being drawn, such as
the physics of the rigs, is not part of the fingerprint: it has tests of its own.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import publish
from tools import draw_architecture, draw_method, film_dashboard

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
SHOWN = IMAGES / "shown.json"
RUNS = ROOT / "runs" / "pictures"
"""Where runs keep recordings and models, so that they are quicker the next time."""


@dataclass(frozen=True)
class Drawing:
    """Pictures that one run draws."""

    name: str
    files: tuple[str, ...]
    """The pictures, from the root of the repository."""
    shows: tuple[str, ...]
    """Patterns of the files that say what is seen."""
    draw: Callable[[], object]

    def fingerprint(self) -> str:
        """Return the fingerprint of what the pictures show at present."""
        digest = hashlib.sha256()
        for pattern in self.shows:
            found = sorted(ROOT.glob(pattern))
            if not found:
                raise SystemExit(f"{self.name}: nothing fits {pattern}")
            for path in found:
                digest.update(f"{path.relative_to(ROOT)}\n".encode())
                digest.update(content_of(path))
        return digest.hexdigest()[:16]


def content_of(path: Path) -> bytes:
    """Return what counts of a file: of Python, the code without comments, docstrings and empty lines."""
    if path.suffix != ".py":
        return path.read_bytes()
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        # Strings that nothing uses are docstrings, of attributes, too.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def run(*words: str) -> None:
    """Run a module of Python in the root of the repository; it must end well."""
    subprocess.run([sys.executable, "-m", *words], check=True, cwd=ROOT)  # noqa: S603 - our own modules


def draw_demo() -> None:
    """Run the demo, and take the picture of its page."""
    run("cgsa", "demo", "--folder", str(RUNS / "demo"))
    run("tests.report.demo_picture", str(RUNS / "demo" / "report.html"), str(IMAGES / "demo.png"))


def draw_vectors(pictures: dict[str, Callable[[], str]]) -> Callable[[], None]:
    """Return what writes drawings that follow from the code alone."""

    def draw() -> None:
        for name, picture in pictures.items():
            (IMAGES / name).write_text(picture(), encoding="utf-8")

    return draw


def of_plan(plan: str, *figures: str) -> Drawing:
    """Return the figures of a plan that pages show."""
    return Drawing(
        f"plan-{plan}",
        tuple(f"benchmarks/results/{plan}/figures/{figure}.png" for figure in figures),
        (f"benchmarks/results/{plan}/rows.csv", "src/cgsa/bench/figures/*.py"),
        lambda: run("benchmarks.publish", "regenerate", plan),
    )


DRAWINGS = (
    Drawing(
        "demo",
        ("docs/images/demo.png",),
        (
            "src/cgsa/report/demo_*.py",
            "src/cgsa/report/templates/demo.*",
            "src/cgsa/evaluation/approach*.py",
            "src/cgsa/scenarios/gearbox.toml",
            "src/cgsa/profiles/recommended.toml",
            "tests/report/demo_picture.py",
        ),
        draw_demo,
    ),
    Drawing(
        "serve",
        ("docs/images/serve.gif", "docs/images/serve-fleet.png", "docs/images/serve-machine.png"),
        (
            "src/cgsa/service/demo.py",
            "src/cgsa/service/dashboard/*.css",
            "src/cgsa/service/dashboard/fleet.py",
            "src/cgsa/service/dashboard/charts.py",
            "src/cgsa/service/dashboard/labels.py",
            "src/cgsa/service/dashboard/machine/*.py",
            "tools/film_dashboard.py",
        ),
        lambda: film_dashboard.draw(RUNS / "demo-service", IMAGES),
    ),
    Drawing(
        "explain",
        ("docs/images/explain-motor.png",),
        ("benchmarks/explain_picture.py", "src/cgsa/report/explain_figures.py", "src/cgsa/report/figures.py"),
        lambda: run("benchmarks.explain_picture", str(IMAGES / "explain-motor.png")),
    ),
    Drawing(
        "architecture",
        tuple(f"docs/images/{name}" for name in draw_architecture.PICTURES),
        ("tools/draw_architecture.py", "tools/drawing.py"),
        draw_vectors(draw_architecture.PICTURES),
    ),
    Drawing(
        "method",
        tuple(f"docs/images/{name}" for name in draw_method.PICTURES),
        ("tools/draw_method.py", "tools/drawing.py"),
        draw_vectors(draw_method.PICTURES),
    ),
    Drawing(
        "fleet-simulation",
        ("benchmarks/results/fleet_simulation/figures/machines.png",),
        ("benchmarks/results/measurements/fleet_simulation.jsonl", "benchmarks/fleet_simulation.py"),
        publish.draw_simulation,
    ),
    of_plan("paper", "totals-gearbox", "curves-gearbox", "curves-motor"),
    of_plan("real", "curves-limerick_motor"),
    of_plan("core", "transitions-gearbox", "intervals-gearbox"),
    of_plan("tau-epsilon", "grid-gearbox-tau-min_confidence"),
    of_plan("tau-queue", "grid-gearbox-tau-queue"),
    of_plan("batch-size", "batch-size-gearbox"),
)


def recorded() -> dict[str, str]:
    """Return the recorded fingerprints by drawing."""
    found: dict[str, str] = json.loads(SHOWN.read_text(encoding="utf-8")) if SHOWN.exists() else {}
    return found


def outdated() -> list[str]:
    """Return the drawings that are older than what they show."""
    known = recorded()
    return [one.name for one in DRAWINGS if known.get(one.name) != one.fingerprint()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what is asked for, and record the fingerprints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in DRAWINGS]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; default: those out of date")
    parser.add_argument("--all", action="store_true", help="draw every picture")
    parser.add_argument("--list", action="store_true", help="say which pictures are out of date, and draw nothing")
    parser.add_argument("--seen", action="store_true", help="only record that nothing to see has changed")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    old = outdated()
    if options.list:
        for one in DRAWINGS:
            print(f"{one.name}: {'out of date' if one.name in old else 'up to date'}: {', '.join(one.files)}")
        return
    wanted = options.names or (names if options.all else old)
    for one in DRAWINGS:
        if one.name in wanted:
            if not options.seen:
                print(f"{one.name} ...", flush=True)
                one.draw()
            marks = {**recorded(), one.name: one.fingerprint()}
            ordered = {name: marks[name] for name in names if name in marks}
            SHOWN.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
