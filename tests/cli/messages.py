"""What a terminal shows for every command: its help, a wrong option, and a file that does not exist.

``python -m tests.cli.messages`` writes the texts that ``tests/cli/test_messages.py`` compares, one file per command.
Read them as a user would before you commit them.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import cgsa.cli
from cgsa.cli import COMMANDS
from cgsa.cli.console import out, talk

FOLDER = Path(__file__).with_name("messages")
WIDTH = 80
NAMES = [name for commands in COMMANDS.values() for name in commands]
MISSING = {
    "demo": "gearbx",
    "simulate": "gearbx out",
    "import": "data/ machine/ --names {class}",
    "check": "machine/",
    "train": "machine/ model/",
    "info": "model/",
    "evaluate": "model/ machine/",
    "watch": "model/ new.csv",
    "explain": "model/ new.csv",
    "ledger": "runs/ledger",
    "export": "model/ --onnx edge/",
    "serve": "plant.toml",
    "fleet": "fleet.toml",
    "token": "plant ann",
    "maintenance": "plant.toml --token-file token",
    "report": "plant press-1",
    "collect": "plant machine/",
    "compare": "model/ model-2/ machine/",
    "reload": "plant",
    "backup": "plant backups/monday",
    "restore": "backups/monday plant",
    "sign": "model/ team.key",
    "methods": "",
    "scenarios": "gearbx",
    "bench": "plan.toml runs",
    "tune": "plan.toml runs",
}
"""Arguments that name what does not exist; an empty text where a command takes no name."""


def shown(words: list[str]) -> str:
    """Return the line of a command, what it prints on a terminal, and its exit status."""
    printed, code = io.StringIO(), 0
    with (
        mock.patch("sys.argv", ["cgsa", *words]),
        mock.patch.dict("os.environ", {"COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1"}),
        mock.patch.object(out, "_width", WIDTH),
        mock.patch.object(talk, "_width", WIDTH),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        try:
            cgsa.cli.main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    text = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")
    return f"$ cgsa {shlex.join(words)}\n{text}\n[exit status {code}]\n"


def messages(name: str) -> str:
    """Return all texts of a command; call it in an empty folder."""
    parts = [shown([name, "--help"]), shown([name, "--nonsense"])]
    if MISSING[name]:
        parts.append(shown([name, *shlex.split(MISSING[name])]))
    return "\n".join(parts)


def general() -> str:
    """Return the texts of the program itself."""
    return "\n".join(shown(words) for words in ([], ["--version"], ["trian"], ["train", "--profil", "paper"]))


def without_version(text: str) -> str:
    """Return a text in which the version of cgsa does not matter."""
    return re.sub(rf"^{re.escape(cgsa.__version__)}$", "VERSION", text, flags=re.MULTILINE)


if __name__ == "__main__":
    from contextlib import chdir

    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as empty, chdir(empty):
        for one in NAMES:
            (FOLDER / f"{one}.txt").write_text(messages(one), encoding="utf-8")
        (FOLDER / "cgsa.txt").write_text(without_version(general()), encoding="utf-8")
