"""The lint of names, on small made-up source trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from subprocess import run
from sys import executable

import pytest
from tools import check_names
from tools.check_names import problems

GLOSSARY = "| term | symbol |\n|---|---|\n"


def make_tree(root: Path, modules: Mapping[str, str], glossary: str | None = GLOSSARY) -> Path:
    for name, text in modules.items():
        file = root / "src" / "pack" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if glossary is not None:
        (root / "docs").mkdir()
        (root / "docs" / "glossary.md").write_text(glossary)
    return root


def test_a_clean_tree_has_no_problems(tmp_path: Path) -> None:
    modules = {"__init__.py": "", "a.py": "class Gate:\n    def step(self): ...\n", "b.py": "def train(seed): ...\n"}
    assert problems(make_tree(tmp_path, modules)) == []


def test_a_class_in_two_modules_is_reported_at_both_places(tmp_path: Path) -> None:
    modules = {"a.py": "class _Row: ...\n", "sub/b.py": "\nclass Outer:\n    class _Row: ...\n"}
    assert problems(make_tree(tmp_path, modules)) == [
        "src/pack/a.py:1: class _Row is also defined in src/pack/sub/b.py",
        "src/pack/sub/b.py:3: class _Row is also defined in src/pack/a.py",
    ]


def test_only_public_top_level_functions_must_be_unique(tmp_path: Path) -> None:
    text = "def _helper(): ...\n\nclass {0}:\n    def step(self): ...\n\ndef {1}():\n    def inner(): ...\n"
    modules = {"a.py": text.format("First", "one"), "b.py": text.format("Second", "two")}
    assert problems(make_tree(tmp_path, modules)) == []
    (tmp_path / "src" / "pack" / "c.py").write_text("if True:\n    async def two(): ...\n")
    assert [line.partition(" is ")[0] for line in problems(tmp_path)] == [
        "src/pack/b.py:6: function two",
        "src/pack/c.py:2: function two",
    ]


def test_overloads_in_one_module_are_one_function(tmp_path: Path) -> None:
    modules = {"a.py": "@overload\ndef load(path: int): ...\ndef load(path): ...\n"}
    assert problems(make_tree(tmp_path, modules)) == []


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("class WatchTold: ...", "a.py:1: class WatchTold"),
        ("class HTTPDoor: ...", "a.py:1: class HTTPDoor"),
        ("def _tell(): ...", "a.py:1: function _tell"),
        ("class A:\n    def hear_all(self): ...", "a.py:2: method hear_all"),
        ("def a(x,\n      *, seat): ...", "a.py:2: parameter seat"),
        ("def a(*told, **seat): ...", "a.py:1: parameter told"),
        ("def a():\n    try: ...\n    except E:\n        def meet(): ...", "a.py:4: inner function meet"),
    ],
)
def test_a_retired_word_is_reported_where_it_is(code: str, place: str, tmp_path: Path) -> None:
    found = problems(make_tree(tmp_path, {"a.py": code}))
    assert found
    assert found[0].startswith(f"src/pack/{place} contains the retired word ")


def test_a_retired_word_in_a_module_name_is_reported(tmp_path: Path) -> None:
    found = problems(make_tree(tmp_path, {"hall/__init__.py": "", "hall/of_sight.py": ""}))
    assert [line.partition(" contains")[0] for line in found] == [
        "src/pack/hall/__init__.py:1: module hall",
        "src/pack/hall/of_sight.py:1: module of_sight",
    ]


def test_only_whole_words_are_retired(tmp_path: Path) -> None:
    code = "class Insight: ...\n\ndef shallow(meter, properties, indoors, heartbeat): ...\n"
    assert problems(make_tree(tmp_path, {"a.py": code})) == []


def test_long_modules_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_names, "LONGEST_MODULE", 5)
    monkeypatch.setattr(check_names, "LONGEST_MEDIAN", 2)
    modules = {"a.py": "#\n" * 5, "b.py": "#\n" * 6, "c.py": "#\n" * 2, "d.py": "#\n", "e.py": "#\n" * 2}
    make_tree(tmp_path, modules)
    assert problems(tmp_path) == ["src/pack/b.py:6: 6 lines; the limit is 5"]
    (tmp_path / "src" / "pack" / "c.py").write_text("#\n" * 3)
    (tmp_path / "src" / "pack" / "e.py").write_text("#\n" * 3)
    assert problems(tmp_path)[1:] == ["src:1: the median module has 3 lines; the limit is 2"]


def test_the_glossary_names_symbols_that_exist(tmp_path: Path) -> None:
    code = "LIMIT = 3\n\nclass Gate:\n    size: int = 0\n    def select(self, response): ...\n\ndef train(): ...\n"
    rows = [
        "| gate | `Gate`, `pack.online.gate.Gate` |",
        "| select | `Gate.select(response)` and `gate.Gate.size` | `NotASymbol` in another column |",
        "| limit | `LIMIT` of `online.gate`; `train()` |",
        "| lost | `Gate.lost`, `Gat` |",
        "| word | none |",
    ]
    make_tree(tmp_path, {"online/gate.py": code}, GLOSSARY + "\n".join(rows))
    assert problems(tmp_path) == [
        "docs/glossary.md:6: `Gate.lost` is not defined in src",
        "docs/glossary.md:6: `Gat` is not defined in src",
    ]


def test_a_missing_glossary_is_reported(tmp_path: Path) -> None:
    assert problems(make_tree(tmp_path, {"a.py": ""}, None)) == ["docs/glossary.md:1: the glossary is missing"]


def test_the_script_reports_all_problems_at_once_and_fails(tmp_path: Path) -> None:
    make_tree(tmp_path, {"a.py": "class Told: ...\n", "b.py": "class Told: ...\n"}, None)
    done = run([executable, check_names.__file__, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "5 problems"
    assert len(done.stderr.splitlines()) == 6
