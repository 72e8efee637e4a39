"""Simulated machines, so that everything runs without downloading data."""

from __future__ import annotations

from cgsa.registry import Registry
from cgsa.rigs.base import Rig

RIGS: Registry[type[Rig]] = Registry(
    "rig", "cgsa.rigs", {"gearbox": "cgsa.rigs.gearbox:GearboxRig", "motor": "cgsa.rigs.motor:MotorRig"}
)

__all__ = ["RIGS", "Rig"]
