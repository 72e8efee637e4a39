"""The Python lines of the page on Python and of the README run as they are, on small bundles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cgsa
from cgsa.nn.bundle import ModelBundle
from tests.estimators.toy import QUICK, labelled, windows_of
from tests.machines import RATE, ensemble_bundle
from tests.online.models import trained_bundle
from tests.starts import steady

ROOT = Path(__file__).parent.parent
TOY = {
    "CgsaClassifier(sample_rate=12800)": "CgsaClassifier(sample_rate=12800, changes=QUICK)",
    "12800": f"{RATE:g}",
    "vibration_x": "a",
    "vibration_y": "b",
}
"""What a page says of its machine, and what is so for the toy machine."""
ROBUST_NAMES = {'"commissioning": {"seconds"': '"reference": {"commission_seconds"'}


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def run(code: str, names: dict[str, object], replacements: dict[str, str]) -> None:
    for written, meant in replacements.items():
        code = code.replace(written, meant)
    exec(code, names)  # noqa: S102 - of our own documents


@pytest.fixture
def names() -> dict[str, object]:
    signals, labels, torques, units = labelled()
    wear = steady("wear")
    return {
        "healthy": steady("health"),
        "samples": wear,
        "windows": windows_of(wear, 16),
        "blocks": [wear[:, begin : begin + 100] for begin in range(0, wear.shape[1], 100)],
        "recordings": [signal.T for signal in signals],
        "labels": labels,
        "speeds": 60 * torques,
        "assemblies": units,
        "QUICK": QUICK,
    }


def test_every_block_of_the_page_runs(
    names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ensemble_bundle().save(tmp_path / "model")
    for block in python_blocks("docs/python.md"):
        run(block, names, TOY)
    assert capsys.readouterr().out.startswith("wear wear ")
    assert cgsa.load("trained").classes == ("health", "wear")
    assert list((tmp_path / "state").glob("*.state"))


@pytest.mark.parametrize("bundle", [trained_bundle, ensemble_bundle], ids=["robust", "recommended"])
def test_the_first_lines_run_on_a_bundle_of_either_kind(
    bundle: object, names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(bundle)
    model = bundle()
    assert isinstance(model, ModelBundle)
    monkeypatch.chdir(tmp_path)
    model.save(tmp_path / "model")
    names["windows"] = windows_of(steady("wear"), model.manifest.window.step)[:, :, : model.manifest.window.length]
    machine, table, *_ = python_blocks("docs/python.md")
    run(machine, names, TOY)
    found = names["found"]
    assert isinstance(found, cgsa.WindowVerdicts)
    assert found.verdict[-1] == found.alarm[-1] == "wear"
    run(table, names, TOY | ({} if model.manifest.ensemble else ROBUST_NAMES))


def test_the_lines_of_the_readme_run(names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bundle = ensemble_bundle()
    bundle.save(tmp_path / "model")
    spec = bundle.manifest.window
    names["windows"] = windows_of(steady("wear"), spec.step)[:, :, : spec.length]
    for block in python_blocks("README.md"):
        run(block, names, TOY)
    found = names["found"]
    assert isinstance(found, cgsa.WindowVerdicts)
    assert found.verdict[-1] == "wear"
