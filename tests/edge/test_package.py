from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cgsa.edge.package import export_package
from cgsa.edge.runner.package import EdgeError, EdgePackage
from cgsa.errors import BundleError, ConfigError
from tests.edge.exported import differences, settings_of, watched
from tests.machines import bundle, ensemble_bundle, healthy_bundle
from tests.starts import steady

FOREIGN = ("torch", "cgsa", "scipy", "pyarrow", "pandas", "onnx")
"""Packages that the runner must not load."""


def test_a_copy_of_the_folder_runs_without_torch_and_without_cgsa(tmp_path: Path) -> None:
    model, signal = healthy_bundle(), steady("wear")
    config = settings_of(model, seconds=0.3)
    export_package(model, config, tmp_path / "edge")
    np.save(tmp_path / "wear.npy", signal)
    code = (
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[0].removesuffix('run.py'))\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        f"except SystemExit: print([name for name in {FOREIGN} if name in sys.modules], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "edge" / "run.py"), str(tmp_path / "wear.npy"), "--json"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path, env={})
    assert found.stderr.strip() == "[]"
    events = [json.loads(line) for line in found.stdout.splitlines()]
    expected = watched(model, config, [signal], healthy=False)
    for one in (*events, *expected):
        del one["source"]
    assert [one for pair in zip(expected, events, strict=True) for one in differences(*pair)] == []


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("cgsa", "method 'cgsa' changes the model while it watches, which needs torch; expected a frozen one: source"),
        ("commissioning", "method 'commissioning' does not suit this model; expected source, reference"),
    ],
)
def test_only_frozen_methods_are_exported(method: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        export_package(bundle(), settings_of(bundle(), method), tmp_path / "edge")
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "edge"
    export_package(bundle(), settings_of(bundle()), folder)
    export_package(ensemble_bundle(), settings_of(ensemble_bundle()), folder)
    assert EdgePackage(folder).kind == "ensemble"
    (tmp_path / "other").mkdir()
    with pytest.raises(BundleError, match="other: exists and is no exported model; choose another folder"):
        export_package(bundle(), settings_of(bundle()), tmp_path / "other")


def test_a_damaged_package_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "edge"
    export_package(bundle(), settings_of(bundle()), folder)
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(EdgeError, match=r"model.onnx: hash differs from package.json"):
        EdgePackage(folder)
    (folder / "model.onnx").unlink()
    with pytest.raises(EdgeError, match=r"model.onnx: cannot read it"):
        EdgePackage(folder)
    (folder / "package.json").write_text("{}")
    with pytest.raises(EdgeError, match="not of format cgsa-edge, version 1; export the model again"):
        EdgePackage(folder)
    (folder / "package.json").write_text("{")
    with pytest.raises(EdgeError, match=r"package.json: cannot read it"):
        EdgePackage(folder)
