"""Tables of settings, such as those of ``[[sources]]`` and ``[[sinks]]`` in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.registry import Registry


def bind_link(registry: Registry[Any], table: Mapping[str, object]) -> tuple[str, Any, Any]:
    """Return name, class and bound settings of a source or sink from its table of settings."""
    kind = table.get("kind")
    name = table.get("name", kind)
    if not isinstance(kind, str) or not isinstance(name, str):
        known = ", ".join(registry)
        raise ConfigError(f"{registry.kind}: kind {kind!r}, name {name!r}; expected texts, and as kind one of {known}")
    where = f"{registry.kind} {name}"
    try:
        cls = registry[kind]
    except ModuleNotFoundError as error:
        raise ConfigError(f"{where}: {kind} needs {error.name}; run pip install 'cgsa[serve,opcua]'") from error
    settings = {key: value for key, value in table.items() if key not in {"kind", "name"}}
    return name, cls, bind(cls.Config, settings, where)
