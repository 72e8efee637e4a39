"""A method of another package, found through its entry point, as docs/extending.md describes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy_files import write_toy

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A package as pip installs it: a module and the metadata of its distribution."""
    code, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    entry = re.search(r'\[project\.entry-points\."(.+?)"\]\n(\w+) = "(.+?):(\w+)"', PAGE.read_text())
    assert entry is not None
    group, name, module, attribute = entry.groups()
    package = tmp_path / "site"
    path = package.joinpath(*module.split("."))
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").write_text("")
    path.with_suffix(".py").write_text(code)
    metadata = package / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
    return package


def cgsa(outside: Path, *arguments: str) -> str:
    paths = [str(outside), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-m", "cgsa", *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_a_method_of_another_package_is_listed_and_benchmarked_like_any_other(outside: Path, tmp_path: Path) -> None:
    listed = {method["name"]: method for method in json.loads(cgsa(outside, "methods", "--json"))}
    assert listed["mine"]["summary"] == "what it does, in one line"
    toy = write_toy(tmp_path)
    plan = (toy / "plan.toml").read_text()
    (toy / "plan.toml").write_text(plan + '\n[[entries]]\nname = "Mine"\nobjective = "plain"\nmethod = "mine"\n')
    arguments = ["bench", str(toy / "plan.toml"), str(toy / "runs"), "--data", str(toy / "data"), "--trials", "1"]
    rows = json.loads(cgsa(outside, *arguments, "--device", "cpu", "--workers", "1", "--json"))
    figures = {
        name: [(row["fault"], row["stage"], row["accuracy"], row["ece"]) for row in rows if row["entry"] == name]
        for name in ("Mine", "Baseline")
    }
    assert figures["Mine"] == figures["Baseline"], "the example is the frozen model"
