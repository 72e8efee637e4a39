"""The code blocks of README and documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
BLOCK = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^ *```$", flags=re.DOTALL | re.MULTILINE)
STATEMENT = ("&&", "||", "|", ";", "&")


@dataclass(frozen=True)
class Block:
    """A code block."""

    page: Path
    number: int
    """Its place among the blocks of this language on the page."""
    language: str
    text: str

    @property
    def name(self) -> str:
        """Where it is: page, language and number."""
        return f"{self.page.relative_to(ROOT)}: {self.language} {self.number}"

    def commands(self) -> Iterator[list[str]]:
        """Yield the commands in the lines of a shell, word by word."""
        for line in self.text.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="();|&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word in STATEMENT:
                    command = [one for one in words if not re.fullmatch(r"[A-Z_]+=.*", one)]
                    if command:
                        yield command
                    words = []
                else:
                    words.append(word)


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    found: list[Block] = []
    for indent, language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        plain = "\n".join(line.removeprefix(indent) for line in text.splitlines()) + "\n"
        number = 1 + sum(one.language == language for one in found)
        found.append(Block(page, number, language, plain))
    return found


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of some languages on all pages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]
