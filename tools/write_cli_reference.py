"""Write ``docs/cli.md``, the reference of the command line, from the commands themselves.

    python -m tools.write_cli_reference

``tests/test_docs.py`` fails while the page is not what this script writes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from cgsa.cli import COMMANDS, app

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# Command line

Every command of `cgsa`, as `cgsa COMMAND --help` shows it; `python -m cgsa` is the same program. Results go to standard
output, messages and progress to standard error. The exit status is 0 if all went well, 1 after an error, which is
printed in one message, 2 if the command itself is wrong, and 130 after Ctrl-C.

This page is written by `python -m tools.write_cli_reference`.
"""
MARKUP = re.compile(r"\[(b|bold)\](.*?)\[/(?:b|bold)?\]", flags=re.DOTALL)


def page() -> str:
    """Return the page."""
    known = getattr(get_command(app), "commands")  # noqa: B009 - a group has them, its base class does not
    parts = [HEAD]
    for panel, names in COMMANDS.items():
        parts.append(f"## {panel}\n")
        parts += [_section(known[name], name) for name in names]
    return "\n".join(parts)


def _section(command: Any, name: str) -> str:
    """Return the section about a command: how it is called, what it does, and its parameters."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([f"cgsa {name}", *(["[OPTIONS]"] if options else []), *map(_place, arguments)])
    lines = [f"### cgsa {name}\n", f"```console\n{usage}\n```\n"]
    lines += [f"{_text(paragraph)}\n" for paragraph in (command.help or "").split("\n\n")]
    rows = [_row(_word(one), one) for one in arguments] + [_row(_option(one), one) for one in options]
    if rows:
        lines += ["| argument or option | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _place(argument: Any) -> str:
    """Return an argument as it stands in the usage."""
    word = f"{_word(argument)}{'...' if argument.nargs == -1 else ''}"
    return word if argument.required else f"[{word}]"


def _option(option: Any) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {_word(option)}"


def _word(parameter: Any) -> str:
    """Return what stands for the value of a parameter."""
    return str(parameter.metavar or parameter.name.upper())


def _row(name: str, parameter: Any) -> str:
    default = parameter.default
    plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool) and default != ""
    shown = f"`{default}`" if plain else ""
    return f"| `{_cell(name)}` | {shown} | {_cell(_text(parameter.help or ''))} |"


def _cell(text: str) -> str:
    """Return a text without what would end the cell of a table."""
    return text.replace("|", " or ")


def _text(help_text: str) -> str:
    """Return a help text as Markdown: bold words are commands and values."""
    return " ".join(MARKUP.sub(lambda found: f"`{' '.join(found[2].split())}`", help_text).split())


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
