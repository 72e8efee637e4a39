"""The offline stage: training a source model from labelled recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgsa.registry import Registry

if TYPE_CHECKING:
    from cgsa.offline.base import Objective

OBJECTIVES: Registry[type[Objective]] = Registry(
    "objective",
    "cgsa.objectives",
    {
        "plain": "cgsa.offline.plain:Plain",
        "supcon": "cgsa.offline.supcon:SupCon",
        "dann": "cgsa.offline.dann:Dann",
        "cal": "cgsa.offline.cal:Cal",
    },
)
