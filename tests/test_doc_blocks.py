"""Every code block of README and documents runs, or is read by what it is for, or is listed here with the reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from cgsa.cli import app
from tests.doc_blocks import PAGES, ROOT, Block, all_blocks

SHELLS = ("bash", "console")
LANGUAGES = {*SHELLS, "python", "toml", "json", "text", "bibtex", "{toctree}", "{eval-rst}"}
SYSTEM = {
    "bash": "runs a script of benchmarks/, which is checked",
    "pip": "would install",
    "/opt/cgsa/bin/pip": "would install",
    "python3": "makes an environment",
    "install": "writes into the system",
    "useradd": "writes into the system",
    "systemctl": "acts on the system",
    "docker": "needs a daemon; tests/deploy/test_docker.py reads the files",
    "createuser": "needs PostgreSQL",
    "createdb": "needs PostgreSQL",
    "pg_dump": "needs PostgreSQL",
    "nvidia-cuda-mps-control": "needs a GPU",
    "cat": "reads a file of a service",
    "echo": "writes a file",
    "kubectl": "needs Kubernetes; tests/deploy reads the manifests",
    "cd": "changes the folder",
    "cp": "copies",
    "mv": "moves",
    "mkdir": "makes folders",
    "chmod": "changes rights",
    "sensor": "stands for a program of the reader",
}
"""Programs that are not ours, and why they are not run."""
RUN_ELSEWHERE = {
    "README.md": "tests/test_python_page.py, with a small bundle",
    "docs/python.md": "tests/test_python_page.py, with a small bundle",
    "docs/quickstart.md": "tests/test_docs.py, on a toy machine",
    "docs/scenarios.md": "tests/test_docs.py, on a toy machine",
    "docs/extending.md": "tests/test_docs.py",
    "docs/ledger.md": "tests/test_docs.py, on a toy machine",
    "docs/data-formats.md": "below",
}
"""Pages whose Python runs in a test."""
COMPILED = {
    "docs/rig-gearbox.md": "simulates a minute of a gearbox; tests/rigs drives the same rig for less",
    "docs/rig-motor.md": "simulates a minute of a motor; tests/rigs drives the same rig for less",
    "docs/speed.md": "needs a GPU; tests/online has the fleet of students on a CPU",
}
"""Pages whose Python is only compiled, and why."""
LINES = [block for block in all_blocks(*SHELLS) if block.page.name != "cli.md"]
"""Lines for a terminal; those of the reference of commands are usages, written from the code."""
RUNS = "<!-- runs -->\n```"


def parse(words: list[str]) -> None:
    """Parse a command line of cgsa with its own parser; nothing is run."""
    command: Any = get_command(app)
    if words == ["--version"]:
        return
    with command.make_context("cgsa", [*words]) as context:
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, found, arguments = command.resolve_command(context, rest)
        found.make_context(name, list(arguments), parent=context).close()


def program(word: str) -> str:
    return word.removeprefix(".venv/bin/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_has_a_language_that_is_checked(page: Path) -> None:
    found = {block.language for block in all_blocks(*LANGUAGES, "") if block.page == page}
    assert found <= LANGUAGES, "a block needs a language, such as text"


@pytest.mark.parametrize("block", LINES, ids=lambda block: block.name)
def test_every_line_of_a_shell_is_one_that_the_program_takes(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in block.commands():
        match program(words[0]):
            case "cgsa":
                parse(words[1:])
            case "make":
                assert all(f"\n{target}:" in makefile for target in words[1:]), words
            case "python" | "nice":
                check_python(words[words.index("python") + 1 :])
            case other:
                assert other in SYSTEM, f"{words}: run it in a test, or list its program here with the reason"
                if other == "bash":
                    assert (ROOT / words[1]).is_file(), words


def check_python(words: list[str]) -> None:
    """Check a call of python: the module or script is there, and knows the options."""
    if words[0] == "-m":
        path = ROOT / f"{words[1].replace('.', '/')}.py"
        path = path if path.exists() else path.with_suffix("") / "__main__.py"
        words = words[1:]
    else:
        path = ROOT / words[0]
        if re.fullmatch(r"send-[\w-]+\.py", words[0]):
            return  # the program that `cgsa serve` writes
        if words[0] == "edge/run.py":
            return  # the program that `cgsa export` writes
    assert path.is_file(), words
    source = (
        "\n".join(one.read_text(encoding="utf-8") for one in path.parent.glob("*.py"))
        if path.name == ("__main__.py")
        else path.read_text(encoding="utf-8")
    )
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in source, f"{path}: no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_within_sentences_exist_with_their_options(page: Path) -> None:
    known = getattr(get_command(app), "commands")  # noqa: B009 - a group has them, its base class does not
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for written in re.findall(r"`(cgsa [^`]+)`", text):
        words = " ".join(written.split()).split()
        if words[1].startswith("-"):
            assert words[1] in {"-h", "--help", "--version"}, written
            continue
        if words[1] == "COMMAND":
            continue
        for name in words[1].strip(",").split("|"):
            assert name in known, written
            options = {option for one in known[name].params for option in (*one.opts, *one.secondary_opts)}
            used = {word.strip(",.[]").partition("=")[0] for word in words[2:] if word.strip("[").startswith("--")}
            assert used <= options | {"--help"}, written


@pytest.mark.parametrize("block", all_blocks("python"), ids=lambda block: block.name)
def test_every_block_of_python_runs_in_a_test_or_says_why_not(block: Block) -> None:
    compile(block.text, block.name, "exec")
    name = str(block.page.relative_to(ROOT))
    assert (name in RUN_ELSEWHERE) != (name in COMPILED), f"{name}: run it in a test, or list it with the reason"


def test_the_lists_have_nothing_that_is_gone() -> None:
    pages = {str(block.page.relative_to(ROOT)) for block in all_blocks("python")}
    assert {*RUN_ELSEWHERE, *COMPILED} == pages
    programs = {program(words[0]) for block in LINES for words in block.commands()}
    assert set(SYSTEM) <= programs, "remove it from the list"


def test_the_python_of_the_page_on_formats_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        f"{number / 12800:.7f};{a:.5f};{b:.5f};900,0".replace(".", ",")
        for number, (a, b) in enumerate(rng.standard_normal((25600, 2)))
    ]
    (tmp_path / "press.csv").write_text("\n".join(["Zeit;ax;current;speed", "s;g;A;rpm", *rows]), encoding="utf-8")
    names: dict[str, object] = {"read_wfm": None}
    reading, changing, registering = (block for block in all_blocks("python") if block.page.name == "data-formats.md")
    for block in (reading, changing):
        exec(block.text, names)  # noqa: S102 - of our own documents
    notes = getattr(names["recording"], "notes")  # noqa: B009 - of an object that the page makes
    assert any("converted from g to m/s^2" in note for note in notes), notes
    assert any("resampled from 12800 Hz to 6400 Hz" in note for note in notes), notes
    exec(f"from cgsa.data.readers import Reader\n{registering.text}", names)  # noqa: S102 - of our own documents


@pytest.mark.parametrize("block", all_blocks("json", "toml"), ids=lambda block: block.name)
def test_blocks_of_data_are_well_formed(block: Block) -> None:
    """What they configure is checked where it is read: tests/service/test_config.py and tests/test_docs.py."""
    (json.loads if block.language == "json" else tomllib.loads)(block.text)


def runnable() -> list[Block]:
    """Return the blocks that pages mark as runnable anywhere, within seconds."""
    return [block for block in all_blocks("bash") if f"{RUNS}bash\n{block.text}```" in block.page.read_text("utf-8")]


def test_marked_blocks_are_found() -> None:
    assert {block.page.name for block in runnable()} >= {"reproduce.md", "scenarios.md"}


@pytest.mark.parametrize("block", runnable(), ids=lambda block: block.name)
def test_marked_blocks_run(block: Block, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "set -e\n" + block.text.replace(".venv/bin/", "")
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["/bin/bash", "-c", script], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
