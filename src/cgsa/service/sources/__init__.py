"""Sources of blocks: one file per type of source.

Each source is made from a table of settings, such as one of ``[[sources]]`` in a configuration: its ``kind``, a
``name`` if there are several of a kind, and the settings of its ``Config``.
"""

from __future__ import annotations

from collections.abc import Mapping

from cgsa.live.intake.receiver import BlockReceiver
from cgsa.registry import Registry
from cgsa.service.links.settings import bind_link
from cgsa.service.sources.base import Source

SOURCES: Registry[type[Source]] = Registry(
    "source",
    "cgsa.sources",
    {
        "folder": "cgsa.service.sources.folder:FolderSource",
        "mqtt": "cgsa.service.sources.mqtt:MqttSource",
        "opcua": "cgsa.service.sources.opcua:OpcuaSource",
        "replay": "cgsa.service.sources.replay:ReplaySource",
    },
)


def create_source(receiver: BlockReceiver, table: Mapping[str, object]) -> Source:
    """Return the source that a table of settings describes."""
    name, cls, config = bind_link(SOURCES, table)
    source: Source = cls(receiver, config, name=name)
    return source


__all__ = ["SOURCES", "Source", "create_source"]
