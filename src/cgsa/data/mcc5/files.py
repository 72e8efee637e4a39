"""Names of the files of the MCC5-THU data sets, and what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cgsa.data.run import SEVERITIES, Run, Severity
from cgsa.errors import DataError

HEALTHY = "health"
"""The state that has no severity."""


@dataclass(frozen=True)
class Mcc5FileName:
    """What the name of a file says about its recording."""

    state: str
    """State of the machine without its severity, such as ``gear_wear``; a compound fault is one state."""
    severity: Severity | None
    run: Run

    @classmethod
    def parse(cls, name: str) -> Mcc5FileName:
        """Parse a file name of either data set.

        The name of a motor's compound fault gives the severity of each part. If
        all agree, it is removed from the state; otherwise the state keeps them.

        >>> Mcc5FileName.parse("gear_wear_H_torque_circulation_1000rpm_10Nm.csv").state
        'gear_wear'
        >>> Mcc5FileName.parse("bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530d.csv").state
        'bearing_outer_and_inner'
        """
        match = re.fullmatch(
            r"(?P<state>[a-z]\w*?)_(speed|torque)_circulation_"
            r"(\d+Nm[-_]\d+rpm|\d+rpm[-_]\d+Nm)([-_]\d{12}[a-z]?)?(\.\w+)?",
            name,
        )
        if match is None:
            raise DataError(
                f"{name!r} is not an MCC5-THU name; expected something like "
                f"'gear_wear_H_torque_circulation_1000rpm_10Nm.csv'"
            )
        state = match["state"].replace("teeth_break_single", "teeth_break")
        letters = set(re.findall(r"_([LMH])(?=_|$)", state))
        severity = next((severity for severity in SEVERITIES if letters == {severity}), None)
        if severity is not None:
            state = re.sub(rf"_{severity}(?=_|$)", "", state)
        return cls(state, severity, Run.parse(name))


def file_name(machine: str, state: str, severity: Severity | None, run: Run) -> str:
    """Return the name, without suffix, that the data set gives to a run; all but the gearbox follow the motor.

    >>> file_name("motor", "bearing_ball", "H", Run("torque", 40, 2000))
    'bearing_ball_H_torque_circulation_40Nm_2000rpm'
    """
    torque, speed = f"{run.torque}Nm", f"{run.speed}rpm"
    if machine == "gearbox":
        level = f"{torque}-{speed}" if run.kind == "speed" else f"{speed}_{torque}"
    else:
        level = f"{torque}_{speed}"
    parts = [state, None if state == HEALTHY else severity, run.kind, "circulation", level]
    return "_".join(part for part in parts if part)
