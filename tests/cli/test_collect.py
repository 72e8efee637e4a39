"""Collecting labels from the command line; :mod:`tests.test_feedback` collects from a running service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgsa.errors import CgsaError
from tests.cli.running import run_cgsa
from tests.data.made_machine import write_machine
from tests.service.test_collection import write_service


def test_a_condition_is_given_and_what_was_added_is_shown(tmp_path: Path) -> None:
    service = write_service(tmp_path / "s")
    write_machine(tmp_path / "m")
    assert run_cgsa("collect", service, tmp_path / "m") == "nothing to add\n"
    shown = run_cgsa("collect", service, tmp_path / "m", "--condition", "speed=600")
    assert "cracked" in shown
    assert "next: cgsa train" in shown
    assert json.loads(run_cgsa("collect", service, tmp_path / "m", "--json"))["added"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--condition", "load=3"], "load=3; expected a number for one of: speed"),
        (["--condition", "speed=fast"], "speed=fast; expected a number"),
        ([], "there is no store here; expected the folder of a service"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, words: list[str], message: str) -> None:
    write_machine(tmp_path / "m")
    with pytest.raises(CgsaError, match=message):
        run_cgsa("collect", tmp_path, tmp_path / "m", *words)
