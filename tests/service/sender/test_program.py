from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.service.sender.program import SenderSettings, sender_token, write_sender
from tests.machines import manifest


def test_the_program_has_the_settings_of_its_machine_and_needs_python_alone(tmp_path: Path) -> None:
    path = tmp_path / "send-p.py"
    assert sender_token(path) == ""
    settings = SenderSettings("https://host:1", "cgsa.sender-p.secret", "p", manifest(), 'cert "one".pem')
    write_sender(path, settings)
    text = path.read_text()
    tree = ast.parse(text)
    values = {
        ast.unparse(one.targets[0]): ast.literal_eval(one.value)
        for one in tree.body[:30]
        if isinstance(one, ast.Assign)
    }
    assert values["URL"] == "https://host:1"
    assert values["CHANNELS"] == ["a", "b"]
    assert values["UNITS"] == {"a": "g", "b": "g"}
    assert values["CERTIFICATE"] == 'cert "one".pem'
    assert path.stat().st_mode & 0o077 == 0
    assert sender_token(path) == "cgsa.sender-p.secret"
    assert "python send-p.py recording.csv" in text
    imported = {name.name for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
    imported |= {str(one.module) for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_what_its_owner_changed_in_the_program_stays(tmp_path: Path) -> None:
    path = tmp_path / "send-p.py"
    settings = SenderSettings("http://host:1", "old", "p", manifest())
    write_sender(path, settings)
    path.write_text(path.read_text() + "# ours\n")
    write_sender(path, replace(settings, token="new"))  # noqa: S106 - an example
    assert sender_token(path) == "new"
    assert path.read_text().endswith("# ours\n")
    path.write_text("print()")
    with pytest.raises(DataError, match="no sender that cgsa serve wrote"):
        write_sender(path, settings)
