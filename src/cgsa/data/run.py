"""Runs of the MCC5-THU test rigs, which the simulated rigs repeat: what is varied, at which torque and speed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cgsa.errors import ConfigError

Severity = Literal["L", "M", "H"]
SAMPLE_RATE = 12_800
"""Of every recording, in Hz."""


@dataclass(frozen=True)
class Run:
    """One operating programme of a rig: what is varied, the named torque and the named speed."""

    kind: Literal["torque", "speed"]
    torque: int
    """Named torque in Nm."""
    speed: int
    """Named speed in rpm."""

    @property
    def name(self) -> str:
        """The run as file names of torque runs write it, such as ``torque_circulation_1000rpm_10Nm``."""
        return f"{self.kind}_circulation_{self.speed}rpm_{self.torque}Nm"

    @classmethod
    def parse(cls, text: str) -> Run:
        """Read the run out of a file name or a scenario, whichever order its parts stand in.

        >>> Run.parse("health_speed_circulation_20Nm-3000rpm.csv")
        Run(kind='speed', torque=20, speed=3000)
        """
        kind = re.search(r"(torque|speed)_circulation", text)
        torque = re.search(r"(\d+)Nm", text)
        speed = re.search(r"(\d+)rpm", text)
        if not (kind and torque and speed):
            raise ConfigError(f"{text!r} names no run; expected something like 'torque_circulation_1000rpm_10Nm'")
        return cls("torque" if kind[1] == "torque" else "speed", int(torque[1]), int(speed[1]))
