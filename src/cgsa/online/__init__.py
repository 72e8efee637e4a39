"""The online stage: methods that diagnose an unlabelled stream and adapt to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgsa.registry import Registry

if TYPE_CHECKING:
    from cgsa.online.base import OnlineMethod

METHODS: Registry[type[OnlineMethod]] = Registry(
    "online method",
    "cgsa.methods",
    {"source": "cgsa.online.source:Source", "cgsa": "cgsa.online.cgsa:Cgsa"},
)
