"""Runs of the MCC5-THU test rigs, which the simulated rigs repeat."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from cgsa.errors import ConfigError

Severity = Literal["L", "M", "H"]
SEVERITIES: tuple[Severity, ...] = ("L", "M", "H")
SAMPLE_RATE = 12_800
"""Sample rate of every recording, in Hz."""


@dataclass(frozen=True)
class Run:
    """One operating programme of a rig."""

    kind: Literal["torque", "speed"]
    """Which of the two is varied."""
    torque: int
    """Nominal torque in Nm."""
    speed: int
    """Nominal speed in rpm."""

    @property
    def name(self) -> str:
        """The run as in the file names of torque runs, such as ``torque_circulation_1000rpm_10Nm``."""
        return f"{self.kind}_circulation_{self.speed}rpm_{self.torque}Nm"

    @classmethod
    def parse(cls, text: str) -> Run:
        """Parse the run in a file name or a scenario; its parts may be in any order.

        >>> Run.parse("health_speed_circulation_20Nm-3000rpm.csv")
        Run(kind='speed', torque=20, speed=3000)
        """
        kind = re.search(r"(torque|speed)_circulation", text)
        torque = re.search(r"(\d+)Nm", text)
        speed = re.search(r"(\d+)rpm", text)
        if not (kind and torque and speed):
            raise ConfigError(f"{text!r} names no run; expected something like 'torque_circulation_1000rpm_10Nm'")
        return cls("torque" if kind[1] == "torque" else "speed", int(torque[1]), int(speed[1]))
