"""The examples run as they are, and say what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "own_csv_to_alarm.py": ("Expected accuracy", "worn_1050rpm"),
    "stream_in_python.py": ("healthy, alarm none", "worn, alarm worn"),
}


def test_every_example_is_listed_and_tested() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}}
    assert files == {*SAYS, "pump.py", "explain_a_bearing.ipynb"}
    assert all(f"({name})" in page for name in files)


@pytest.mark.parametrize("name", SAYS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in SAYS[name]:
        assert text in done.stdout


def test_a_notebook_runs_cell_by_cell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    book = json.loads((EXAMPLES / "explain_a_bearing.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for number, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "clear the outputs"
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102 - our own notebook
    assert "damage of the outer ring of bearing drive end" in capsys.readouterr().out
