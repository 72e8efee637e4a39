"""Write ``docs/settings.md``, the reference of all settings, from the dataclasses that hold them.

    python -m tools.write_settings_reference

A setting is described by the docstring below its field. ``tests/test_docs.py`` fails while the page is not what this
script writes.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from cgsa.fleet.config import FleetConfig
from cgsa.offline import OBJECTIVES
from cgsa.online import METHODS
from cgsa.profile import Profile
from cgsa.registry import Registry
from cgsa.service.config import ServiceConfig
from cgsa.service.sinks import SINKS
from cgsa.service.sources import SOURCES

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """# Settings

All settings with their defaults. Unknown names are refused, with the names that exist, and all mistakes of a file are
reported at once.

This page is written by `python -m tools.write_settings_reference`.
"""
PROFILES = """## Profiles

`--set KEY=VALUE` of the commands changes one setting, such as `--set train.epochs=20`; a file that is passed as
`--profile` lists what differs from the defaults, which are those of the paper. In the configuration of a service, they
are below `[machines.settings]`.
"""
SERVICE = """## Configuration of a service

The file that `cgsa serve plant.toml` reads ([Live monitoring](serve.md)). `cgsa serve --check` checks it.
"""
FLEET = """## Configuration of a fleet

The file that `cgsa fleet fleet.toml` reads ([Fleet](fleet.md)). Machines have the same settings as in a service.
"""
ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?([\w.]+)`")


def page() -> str:
    """Return the page."""
    parts = [HEAD, SERVICE, *_tables(ServiceConfig, "", "")]
    parts += _registered(SOURCES, "sources", '`[[sources]]` with `kind = "{}"`')
    parts += _registered(SINKS, "sinks", '`[[sinks]]` with `kind = "{}"`')
    parts += [FLEET, *_tables(FleetConfig, "", "", without=("machines",))]
    parts += [PROFILES, *_tables(Profile, "", "")]
    parts += _registered(OBJECTIVES, "objective.{}", "`[objective.{}]`")
    parts += _registered(METHODS, "method.{}", "`[method.{}]`")
    return "\n".join(parts)


def _registered(registry: Registry[Any], place: str, heading: str) -> Iterator[str]:
    """Yield the tables of what may be chosen by name, of those that have settings."""
    for name in registry:
        config = getattr(registry[name], "Config", None)
        if config is not None and fields(config):
            yield from _tables(config, f"{place.format(name)}.", heading.format(name))


def _tables(config: type, prefix: str, heading: str, *, without: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the table of a dataclass, and those of the dataclasses within it."""
    hints, described, inner = get_type_hints(config), _descriptions(config), []
    rows = []
    for one in fields(config):
        if one.name in without:
            continue
        nested = _nested(hints[one.name])
        if nested is not None:
            place = f"{prefix}{one.name}"
            many = get_origin(hints[one.name]) is tuple
            inner.append((nested, f"{place}.", f"`[[{place}]]`" if many else f"`[{place}]`"))
            continue
        rows.append(f"| `{one.name}` | {_default(one)} | {described.get(one.name, '')} |")
    if heading:
        yield f"### {heading}\n"
    if rows:
        yield "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows, ""])
    for nested, below, title in inner:
        yield from _tables(nested, below, title)


def _nested(hint: Any) -> type | None:
    """Return the dataclass in the type of a setting, if there is one."""
    if inspect.isclass(hint) and is_dataclass(hint):
        return hint
    return next((found for one in get_args(hint) if (found := _nested(one)) is not None), None)


def _default(one: Field[Any]) -> str:
    if one.default is not MISSING:
        value = one.default
    elif one.default_factory is not MISSING:
        value = one.default_factory()
    else:
        return "required"
    if value is None or value in ((), {}, ""):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{shown}`"


@cache
def _descriptions(config: type) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass and its bases."""
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        if not is_dataclass(one):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for before, after in pairwise(statements):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(text, str):
                found[before.target.id] = _cell(text)
    return found


def _cell(text: str) -> str:
    """Return a docstring as the cell of a table."""
    plain = ROLE.sub(r"`\1`", " ".join(text.split())).replace("``", "`")
    return plain.replace("|", " or ")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
