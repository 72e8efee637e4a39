"""A terminal shows what ``tests/cli/messages`` has: help, wrong options and missing files of every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.messages import FOLDER, MISSING, NAMES, WIDTH, general, messages, without_version

RENEW = "read the difference as a user would, then run python -m tests.cli.messages"


def test_every_command_has_its_messages() -> None:
    assert set(MISSING) == set(NAMES)
    assert {path.stem for path in FOLDER.iterdir()} == {*NAMES, "cgsa"}


@pytest.mark.parametrize("name", NAMES)
def test_help_a_wrong_option_and_a_missing_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = messages(name)
    assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), RENEW
    helped, wrong, *missing = re.split(r"(?=^\$ cgsa )", text, flags=re.MULTILINE)[1:]
    assert helped.endswith("[exit status 0]\n\n")
    assert wrong.endswith("[exit status 2]\n\n" if missing else "[exit status 2]\n")
    assert "No such option: --nonsense" in wrong
    for one in missing:
        lines = one.splitlines()
        assert lines[-1] == "[exit status 1]"
        assert sum(line.startswith("error: ") for line in lines) == 1
    assert "Traceback" not in text
    # An error is one line, which a terminal breaks where it likes.
    assert all(len(line) <= WIDTH for line in text.splitlines() if not line.startswith(("error: ", "$ ")))
    # What fails leaves nothing behind.
    assert list(tmp_path.iterdir()) == []


def test_the_program_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = without_version(general())
    assert text == (FOLDER / "cgsa.txt").read_text(encoding="utf-8"), RENEW
    assert "Did you mean 'train'?" in text
