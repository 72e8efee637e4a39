"""The commands on the page of the profile ``recommended`` do what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.online.commissioning import CommissioningConfig
from cgsa.service.api import commissioning
from tests.cli.running import run_cgsa
from tests.machines import RATE, ensemble_bundle
from tests.starts import FOOLING, steady

PAGE = (Path(__file__).parent.parent / "docs" / "recommended.md").read_text()
SECTION = PAGE.split("## Commissioning")[1].split("## Settings")[0]


def commands() -> list[list[str]]:
    (block,) = re.findall(r"```bash\n(.*?)```", SECTION, flags=re.DOTALL)
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ensemble_bundle().save(tmp_path / "runs" / "recommended")
    return tmp_path


def test_the_commands_ask_answer_in_advance_and_observe_longer(folder: Path) -> None:
    strange = Recording(steady("health", strange=2.0), RATE, ("a", "b"), ("g", "g"), source="x")
    write_parquet(strange, folder / "pump.parquet")
    asks, answers, longer = (run_cgsa(*words) for words in commands())
    assert "question: looks like wear; confirm healthy, or mark as faulty" in asks
    assert "commissioned: reference of this machine in use" in answers
    assert "waiting: observing the healthy start" in longer
    assert "of 3600 s" in longer


@pytest.mark.parametrize("name", ["standstill", "noise", "disconnected", "moving"])
def test_the_commands_wait_for_each_cause_of_the_page(folder: Path, name: str) -> None:
    samples, _ = FOOLING[name]
    write_parquet(Recording(samples, RATE, ("a", "b"), ("g", "g"), source="x"), folder / "pump.parquet")
    lines = run_cgsa(*commands()[1], "--json").splitlines()
    found = [json.loads(line)["commissioning"] for line in lines]
    causes = re.findall(r"^\| `([a-z ]+)` \|", SECTION.split("Then there are")[0], flags=re.MULTILINE)
    assert len(causes) == 4
    cause = {"standstill": 0, "noise": 1, "disconnected": 2, "moving": 3}[name]
    assert causes[cause] in {status["cause"] for status in found}
    assert {status["state"] for status in found} == {"waiting"}


def test_the_page_has_every_command_of_the_api() -> None:
    table = re.findall(r"^\| `([a-z-]+)` \|", SECTION.split("POST /api")[1], flags=re.MULTILINE)
    paths = [getattr(route, "path", "") for route in commissioning.router.routes]
    assert sorted(table) == sorted(path.rpartition("/")[2] for path in paths)
    assert all(path.startswith("/machines/{machine}/commissioning/") for path in paths)


def test_the_page_has_the_defaults_of_the_settings() -> None:
    defaults = CommissioningConfig()
    found = dict(re.findall(r"^\| `method\.commissioning\.([a-z_]+)` \| ([^ ]+) \|", PAGE, flags=re.MULTILINE))
    assert found == {
        "seconds": str(defaults.seconds),
        "healthy_start": str(defaults.healthy_start).lower(),
        "history_seconds": f"{defaults.history_seconds:g}",
    }
