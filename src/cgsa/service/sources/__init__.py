"""Sources of blocks: one file per type of source.

Each source is made from a table of settings, such as one of ``[[sources]]`` in a configuration: its ``kind``, a
``name`` if there are several of a kind, and the settings of its ``Config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.live.plant import Plant
from cgsa.registry import Registry
from cgsa.service.sources.base import Source

SOURCES: Registry[type[Source]] = Registry(
    "source",
    "cgsa.sources",
    {
        "mqtt": "cgsa.service.sources.mqtt:MqttSource",
        "opcua": "cgsa.service.sources.opcua:OpcuaSource",
        "replay": "cgsa.service.sources.replay:ReplaySource",
    },
)


def create_source(plant: Plant, table: Mapping[str, object]) -> Source:
    """Return the source that a table of settings describes."""
    name, cls, config = bind_link(SOURCES, table)
    source: Source = cls(plant, config, name=name)
    return source


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


__all__ = ["SOURCES", "Source", "create_source"]
