"""Check the names and the sizes of the modules in ``src``; ``make lint`` runs this script.

    python tools/check_names.py [ROOT]

It reports, all at once and with file and line:

- a class name, or the name of a public top-level function, that two modules define;
- a retired word in the name of a module, class, function, method or parameter;
- a module that is too long, and modules that are too long on the whole;
- a symbol that the glossary names and the code does not define.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
GLOSSARY = Path("docs") / "glossary.md"
LONGEST_MODULE = 450
LONGEST_MEDIAN = 110
RETIRED_WORDS = (
    "aside asking beat beats bookkeeper door doors hall halls hear heard hearer hearers hears lanes look looks meet "
    "meeting meetings meets met rails seat seats sight sights strokes tell tells ties told turned worth"
)
"""Metaphors that a standard term (``docs/glossary.md``) replaced; a shaft signal has real pulses, so they may stay."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Name:
    """A name that a module defines."""

    file: Path
    """Relative to the root of the repository."""
    line: int
    kind: str
    """module, class, function, method, inner function, parameter, or variable of a module or class."""
    path: str
    """Dotted path from the package down, such as ``cgsa.online.gate.ReliabilityGate.select``."""

    @property
    def last(self) -> str:
        """The name itself."""
        return self.path.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind} {self.last}"


def names_of(file: Path, root: Path) -> Iterator[Name]:
    """Yield every name that a module defines, itself first."""
    parts = file.relative_to(root / "src").with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    where = file.relative_to(root)
    yield Name(where, 1, "module", module)
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    for line, kind, path in _definitions(tree, module, "module"):
        yield Name(where, line, kind, path)


def _definitions(node: ast.AST, prefix: str, inside: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and dotted path of the names below a node; ``inside`` is the innermost scope around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child.lineno, "class", f"{prefix}.{child.name}"
            yield from _definitions(child, f"{prefix}.{child.name}", "class")
        elif isinstance(child, FUNCTIONS):
            kind = {"module": "function", "class": "method", "function": "inner function"}[inside]
            yield child.lineno, kind, f"{prefix}.{child.name}"
            for parameter in _parameters(child):
                yield parameter.lineno, "parameter", f"{prefix}.{child.name}.{parameter.arg}"
            yield from _definitions(child, f"{prefix}.{child.name}", "function")
        elif isinstance(child, ast.Assign | ast.AnnAssign) and inside != "function":
            for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                if isinstance(target, ast.Name):
                    yield child.lineno, "variable", f"{prefix}.{target.id}"
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _definitions(child, prefix, inside)


def _parameters(function: Function) -> Iterator[ast.arg]:
    known = function.args
    yield from (*known.posonlyargs, *known.args, *known.kwonlyargs)
    yield from (one for one in (known.vararg, known.kwarg) if one is not None)


def duplicates(names: list[Name]) -> Iterator[str]:
    """Yield every definition of a class or public top-level function whose name two modules share."""
    homes: defaultdict[tuple[str, str], dict[Path, Name]] = defaultdict(dict)
    for name in names:
        if name.kind == "class" or (name.kind == "function" and not name.last.startswith("_")):
            homes[name.kind, name.last].setdefault(name.file, name)
    for found in homes.values():
        for name in found.values() if len(found) > 1 else ():
            yield f"{name} is also defined in {', '.join(str(file) for file in found if file != name.file)}"


def retired(names: list[Name]) -> Iterator[str]:
    """Yield every name that contains a retired word, as a whole word in snake_case or CamelCase."""
    for name in names:
        words = {word.lower() for word in WORD.findall(name.last)} & set(RETIRED_WORDS.split())
        if words and name.kind != "variable":
            yield f"{name} contains the retired word {', '.join(sorted(words))}; docs/glossary.md has the current terms"


def too_long(root: Path, files: list[Path]) -> Iterator[str]:
    """Yield every module that is too long, and the median if it is."""
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    for file, count in lines.items():
        if count > LONGEST_MODULE:
            yield f"{file.relative_to(root)}:{LONGEST_MODULE + 1}: {count} lines; the limit is {LONGEST_MODULE}"
    if lines and median(lines.values()) > LONGEST_MEDIAN:
        yield f"src:1: the median module has {median(lines.values()):.0f} lines; the limit is {LONGEST_MEDIAN}"


def glossary(root: Path, names: list[Name]) -> Iterator[str]:
    """Yield every code symbol in the second column of the glossary that the code does not define."""
    path = root / GLOSSARY
    if not path.exists():
        yield f"{GLOSSARY}:1: the glossary is missing"
        return
    known = symbols(names)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        cells = line.strip().strip("|").split("|") if line.startswith("|") else []
        for symbol in re.findall(r"`([^`]+)`", cells[1]) if len(cells) > 1 else ():
            if symbol.partition("(")[0] not in known:
                yield f"{GLOSSARY}:{number}: `{symbol}` is not defined in src"


def symbols(names: list[Name]) -> set[str]:
    """Return how documents may call the names: every ending of a path, such as ``select`` or ``online.gate``."""
    return {
        ".".join(parts[start:]) for name in names for parts in [name.path.split(".")] for start in range(len(parts))
    }


def problems(root: Path) -> list[str]:
    """Return all that is wrong below a root folder, one line each."""
    files = sorted((root / "src").rglob("*.py"))
    names = [name for file in files for name in names_of(file, root)]
    return [*duplicates(names), *retired(names), *too_long(root, files), *glossary(root, names)]


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    sys.exit("\n".join([*found, f"{len(found)} problems"]) if found else 0)
