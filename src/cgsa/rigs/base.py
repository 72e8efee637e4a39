"""Common parts of the simulated rigs: interface, set curves and random generators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, SEVERITIES, Run, Severity
from cgsa.errors import ConfigError

DoubleArray = npt.NDArray[np.float64]


class Rig(Protocol):
    """A simulated machine.

    A *specimen* is one assembly of the machine: its number determines runout,
    backlash, profile errors, preload and transfer paths for all its runs. A
    *seed* determines what differs from run to run: noise, start angle and small
    drifts.
    """

    name: ClassVar[str]
    states: ClassVar[tuple[str, ...]]
    """Healthy first, then the faults."""

    def simulate(
        self, state: str, run: Run, *, severity: Severity = "H", specimen: int = 1, seed: int = 0
    ) -> Recording:
        """Return the run as recorded by the rig's data acquisition."""
        ...

    def drive(
        self,
        state: str,
        *,
        torque: float | Mapping[float, float],
        speed: float,
        seconds: float,
        severity: Severity = "H",
        specimen: int = 1,
        seed: int = 0,
        same_assembly: bool = False,
    ) -> Recording:
        """Return a recording of the settled machine at set speed (rpm) and torque.

        ``torque`` is constant (Nm) or a curve: second -> Nm. With ``same_assembly`` a faulty machine is the healthy
        specimen of that number with the fault, as if the fault had developed in it; otherwise it is another assembly.
        """
        ...


def checked_severity(rig: type[Rig], state: str, severity: Severity) -> Severity:
    """Return the severity of a specimen; raise an error for an unknown state or severity."""
    if state not in rig.states:
        raise ConfigError(f"the {rig.name} rig has no state {state!r}; it has {', '.join(rig.states)}")
    if severity not in SEVERITIES:
        raise ConfigError(f"severity {severity!r} of {state}; expected one of {', '.join(SEVERITIES)}")
    # The healthy state has no severity: the machine is the same for all of them.
    return "H" if state == rig.states[0] else severity


def set_torque(torque: float | Mapping[float, float], seconds: float, settling: float) -> DoubleArray:
    """Sample a set torque, preceded by its first value for the settling time of the machine."""
    curve = set_curve(torque if isinstance(torque, Mapping) else {0.0: torque}, seconds)
    return np.pad(curve, (round(settling * SAMPLE_RATE), 0), mode="edge")


def set_curve(points: Mapping[float, float], seconds: float) -> DoubleArray:
    """Sample the piecewise linear curve through ``points`` (second -> value) at the recording rate."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return np.interp(time, list(points), list(points.values()))


def specimen_generator(rig: str, state: str, severity: Severity, specimen: int) -> np.random.Generator:
    """Return the random generator for the properties of one specimen."""
    return _generator("specimen", rig, state, severity, str(specimen))


def run_generator(
    rig: str, state: str, severity: Severity, specimen: int, *, run: Run, seed: int
) -> np.random.Generator:
    """Return the random generator for one run of one specimen."""
    return _generator("run", rig, state, severity, str(specimen), run.name, str(seed))


def _generator(*names: str) -> np.random.Generator:
    # The bytes of the names, not hash(): Python's hash of a string changes between processes.
    return np.random.Generator(np.random.PCG64(list("/".join(names).encode())))
