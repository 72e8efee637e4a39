"""Does ``cgsa explain`` name the right lines first? Every simulated fault at three speeds, and real damaged bearings.

    python -m benchmarks.explain_lines --data ../shared/data --output runs/explain_lines
    python -m benchmarks.explain_lines --data ../shared/data --output runs/explain_development --development
    python -m benchmarks.publish measurements runs

Simulated: one assembly is recorded healthy three times, and once more with a fault that has developed in it; the state
``health`` is a fourth healthy recording, of which nothing should be said. Real: the bearings of Paderborn University
with their published geometry; three other bearings are the healthy reference, since each was built in anew.

The lines are *right* if the family that is named first, and that speaks, has the lines of the fault:

- a tooth of the 36-tooth gear: meshes, harmonics or impacts with the spacing of its shaft. Both gears of that shaft
  have this spacing; the *part* is right if the family is that of the damaged gear alone;
- ball, inner and outer ring: 2xBSF, BPFI and BPFO;
- eccentricity: twice line frequency or rotor slots; unbalance of the supply: odd multiples of line frequency in the
  currents, or twice line frequency; for both also the shaft sidebands of twice line frequency, which are among the
  lines of stator and supply in ``benchmarks/changed_lines.py``, too, but never the right part.

*Other speeds* is the share of wrong speeds (six per recording) at which the right lines would be named first as well.
The envelopes are those of :mod:`cgsa.explain.envelope`. ``pooled`` is the default; it was chosen, as everything else,
on other assemblies of the rigs at other speeds and on the real bearings of ``limerick_motor``, never on the recordings
of this table (docs/explain.md has the figures). ``--development`` explains those of ``limerick_motor``: the set does
not say which bearings it has, but the lines are those of the bearings that are published for such a rig.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
from benchmarks.result_files import Result, measure_all

from cgsa.bench.tables import Table
from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.explain.envelope import EnvelopeMethod
from cgsa.explain.explanation import explain_interval, matched_families
from cgsa.explain.kinematics import Bearing, Kinematics, Shaft, load_kinematics
from cgsa.explain.line_families import Speeds
from cgsa.rigs import RIGS

RPM = (1000.0, 2000.0, 3000.0)
TORQUES = {"gearbox": 10.0, "motor": 20.0}
SPECIMENS = (1, 2, 3)
HEALTHY_RUNS = 3
SECONDS = 12.0
REAL, DEVELOPMENT = "kat_units", "limerick_motor"
BEARING = "test bearing"
SIMULATOR = Kinematics((Shaft("shaft"),), bearings=(Bearing(BEARING, "shaft", part="ER-10K"),))
"""The machine of ``limerick_motor``."""
ENVELOPES: tuple[EnvelopeMethod, ...] = get_args(EnvelopeMethod)
OTHER_SPEEDS = (0.82, 0.88, 0.94, 1.07, 1.13, 1.21)
GEARS = (
    "mesh of second stage with sidebands of its pinion",
    "mesh of first stage with sidebands of its gear",
    "harmonics of shaft intermediate",
    "impacts of shaft intermediate",
)
SIDEBANDS = "shaft sidebands of twice line frequency"
RIGHT: Mapping[str, tuple[str, ...]] = {
    "gear_wear": GEARS,
    "teeth_break": GEARS,
    "teeth_crack": GEARS,
    "bearing_ball": ("2xBSF of drive end",),
    "static_eccentricity": ("twice line frequency", "rotor slots with line sidebands", SIDEBANDS),
    "voltage_unbalance": ("odd multiples of line frequency", "twice line frequency", SIDEBANDS),
    "inner": (f"BPFI of {BEARING}",),
    "outer": (f"BPFO of {BEARING}",),
    "inner_race_heavy": (f"BPFI of {BEARING}",),
    "inner_race_light": (f"BPFI of {BEARING}",),
    "outer_race_heavy": (f"BPFO of {BEARING}",),
    "outer_race_light": (f"BPFO of {BEARING}",),
    "ball_heavy": (f"2xBSF of {BEARING}",),
    "health": (),
}
"""Families with the lines of a fault, the one of the damaged part first."""


@dataclass(frozen=True)
class Case:
    """A recording to explain."""

    machine: str
    state: str
    condition: str
    """Speed in rpm, or the operating point of a real recording."""
    specimen: int
    envelope: EnvelopeMethod
    data: Path | None = None


def measure(case: Case) -> Result:
    """Explain one recording."""
    current, healthy, unit = real(case) if case.data is not None else simulated(case)
    machine = SIMULATOR if case.machine == DEVELOPMENT else load_kinematics(case.machine)
    explanation, spectra = explain_interval(current, healthy, machine, envelope=case.envelope)
    first, right = explanation.families[0], RIGHT[case.state]
    elsewhere = 0
    for factor in OTHER_SPEEDS:
        speeds = Speeds(factor * (explanation.speed or 0.0) / 60, factor * (explanation.supply or 0.0))
        [found, *_] = matched_families(machine, current, spectra, speeds)
        elsewhere += found.speaks and found.family.name in right
    return {
        "set": case.machine,
        "state": case.state,
        "condition": case.condition,
        "unit": unit,
        "envelope": case.envelope,
        "speaks": first.speaks,
        "first": first.name,
        "right": first.speaks and first.name in right,
        "ranked_first": first.name in right,
        "part": first.speaks and first.name == next(iter(right), None),
        "strength": first.strength,
        "chance": first.chance,
        "other_speeds": elsewhere / len(OTHER_SPEEDS),
    }


def simulated(case: Case) -> tuple[Recording, list[Recording], str]:
    """Return a recording of a rig, healthy ones of the same assembly, and its number."""
    place = (case.machine, float(case.condition), case.specimen)
    healthy = [drive(*place, Scenario.load(case.machine).healthy, seed) for seed in range(HEALTHY_RUNS)]
    return drive(*place, case.state, HEALTHY_RUNS), healthy, str(case.specimen)


@lru_cache(maxsize=8)
def drive(machine: str, rpm: float, specimen: int, state: str, seed: int) -> Recording:
    """Return a recording of a rig; several cases have the same healthy ones."""
    scenario = Scenario.load(machine)
    channels = (*scenario.channels, *(name for name in ("current_b", "current_c") if machine == "motor"))
    recording = RIGS[machine]().drive(
        state,
        torque=TORQUES[machine],
        speed=rpm,
        seconds=SECONDS,
        severity=scenario.severity_of(state),
        specimen=specimen,
        seed=seed,
        same_assembly=True,
    )
    return recording.select(list(dict.fromkeys(channels)))


def real(case: Case) -> tuple[Recording, list[Recording], str]:
    """Return a real recording, healthy ones of other bearings at the same operating point, and the bearing."""
    library = SteadyStateLibrary(case.data or Path())
    [file] = [
        one
        for one in library.files
        if (one.state, one.run, one.specimen) == (case.state, case.condition, case.specimen)
    ]
    known = library.specimens_of("healthy", case.condition)
    healthy = [library.get("healthy", case.condition, severity="H", specimen=number) for number in known]
    current = library.get(case.state, case.condition, severity="H", specimen=case.specimen)
    return current, healthy, file.unit or str(case.specimen)


def cases(data: Path | None, *, development: bool = False) -> list[Case]:
    """Return what is measured; the envelope matters for bearings only."""
    found = []
    for name, rpm, specimen in product(() if development else RIGS, RPM, SPECIMENS):
        for state in Scenario.load(name).classes:
            envelopes = ENVELOPES if state == "bearing_ball" else ENVELOPES[:1]
            found += [Case(name, state, f"{rpm:g}", specimen, envelope) for envelope in envelopes]
    name = DEVELOPMENT if development else REAL
    if data is not None and (data / name).is_dir():
        library = SteadyStateLibrary(data / name)
        found += [
            Case(name, file.state, file.run, file.specimen, envelope, data / name)
            for envelope in ENVELOPES
            for file in library.files
            if file.state in RIGHT
        ]
    return found


def table_of(results: Sequence[Result]) -> Table:
    """Return how often the right lines were named first, per fault, condition and envelope."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for one in results:
        places = {REAL: str(one["unit"]), DEVELOPMENT: "every condition"}
        place = places.get(str(one["set"]), f"{one['condition']} rpm")
        groups.setdefault((str(one["set"]), str(one["state"]), place, str(one["envelope"])), []).append(one)
    rows = []
    for key in sorted(groups, key=lambda key: (key[3] != ENVELOPES[0], key)):
        group = groups[key]
        first = Counter(str(one["first"]) for one in group if one["speaks"]).most_common(1)
        rows.append(
            (
                *key,
                f"{sum(bool(one['right']) for one in group)} of {len(group)}" if RIGHT[key[1]] else "",
                f"{sum(bool(one['part']) for one in group)} of {len(group)}" if RIGHT[key[1]] else "",
                f"{np.mean([float(one['other_speeds']) for one in group]):.2f}" if RIGHT[key[1]] else "",
                f"{np.mean([float(one['strength']) for one in group]):.2f}",
                f"{np.median([float(one['chance']) for one in group]):.3f}",
                first[0][0] if first else "nothing",
            )
        )
    head = ("set", "state", "at", "envelope", "right lines first", "right part first", "other speeds", "strength")
    return Table("explain-lines", (*head, "by chance", "mostly named"), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the real sets; without it, only the rigs")
    parser.add_argument("--development", action="store_true", help="explain the recordings for development instead")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/explain_lines"))
    options = parser.parse_args()
    items = {
        options.output / f"{one.machine}-{one.state}-{one.condition}-{one.specimen}-{one.envelope}.json": one
        for one in cases(options.data, development=options.development)
    }
    print(table_of(measure_all(measure, items, options.workers)).markdown())


if __name__ == "__main__":
    main()
