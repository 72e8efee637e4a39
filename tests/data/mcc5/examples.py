"""Raw columns and file names that the tests of the MCC5-THU files share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cgsa.data.run import SAMPLE_RATE

DoubleArray = npt.NDArray[np.float64]
GEARBOX_NAME = "gear_wear_H_torque_circulation_1000rpm_20Nm.csv"
MOTOR_NAME = "broken_bar_and_bearing_inner_H_torque_circulation_20Nm_2000rpm_230412101530.csv"


def columns(rows: int = 4 * SAMPLE_RATE, *, rpm: float = 1500, torque: float = 20 / 6) -> list[DoubleArray]:
    """Return eight raw columns of a machine at constant speed and load."""
    rng = np.random.default_rng(0)
    turns = np.arange(rows) * rpm / 60 / SAMPLE_RATE - 0.5
    key_phase = np.where(turns % 1 < 0.11, 3.8, 0.0) + rng.normal(0, 0.05, rows)
    return [key_phase, rng.normal(torque, 0.01, rows), *rng.normal(0, 1, (6, rows))]
