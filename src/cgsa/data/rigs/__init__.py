"""Simulated machines, so that everything runs without a download."""

from __future__ import annotations

from cgsa.data.rigs.base import Rig, Run
from cgsa.registry import Registry

RIGS: Registry[type[Rig]] = Registry(
    "rig",
    "cgsa.rigs",
    {"gearbox": "cgsa.data.rigs.gearbox:GearboxRig", "motor": "cgsa.data.rigs.motor:MotorRig"},
)

__all__ = ["RIGS", "Rig", "Run"]
