"""Measure which faults of recordings ``cgsa check`` finds, and how often it warns without reason.

    python -m benchmarks.check_faults simulate runs/check_sets
    python -m benchmarks.check_faults run ../shared/data runs/check_sets runs/check_faults --workers 16
    python -m benchmarks.check_faults table runs/check_faults
    python -m benchmarks.publish measurements runs

Every fault of ``benchmarks/planted_faults.py`` is planted into every set, ten times at random places and with random
strength. It is found if its own check warns and names a spoilt recording. A warning is false if it is about recordings
that are not spoilt and about which the clean set has no warning. The limits of the checks come from textbooks, from the
physics of sensors and from the set at hand; they were examined with other seeds than those of the published table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from benchmarks.planted_faults import PLANTED_FAULTS, SpoiltSet
from benchmarks.result_files import Result, measure_all, read_folder

from cgsa.bench.tables import Table
from cgsa.check import CHECKS
from cgsa.check.data_set import DataSummary
from cgsa.check.finding import NOTE, Finding
from cgsa.check.recordings import LabelledRecording
from cgsa.check.run import find_faults
from cgsa.check.summary import RecordingSummary, summarise_recording
from cgsa.data.steady_state import META_FILE, SteadyStateFile, SteadyStateLibrary
from cgsa.rigs import RIGS

REPETITIONS = 10
FIRST_SEED = 200_000
CLEAN = "nothing"
"""Name of the fault of a clean set."""
ASSUMED_RATE = 12_800.0
"""Of the one set that states none."""
RIG_SETS = {"gearbox": ((5.0, 10.0, 15.0), 1000), "motor": ((5.0, 10.0, 20.0), 2000)}
"""Torques in Nm and speed in rpm of the simulated sets."""
RIG_SECONDS, RIG_SPECIMENS, MAX_STEPS = 3.0, (1, 2), 32_767


@dataclass(frozen=True)
class Trial:
    """One fault in one set, several times."""

    folder: Path
    fault: str
    repetitions: int = REPETITIONS
    first_seed: int = FIRST_SEED

    def file(self, results: Path) -> Path:
        """Return the path of the result."""
        return results / f"{self.folder.name}-{self.fault.replace(' ', '_')}.json"


@cache
def clean_set(folder: Path) -> tuple[LabelledRecording, ...]:
    """Return the recordings of a set in memory."""
    library = SteadyStateLibrary(folder, assumed_rate=ASSUMED_RATE)
    return tuple(_in_memory(library, file) for file in library.files)


def _in_memory(library: SteadyStateLibrary, file: SteadyStateFile) -> LabelledRecording:
    read = library.get(file.state, file.run, severity="H", specimen=file.specimen)
    return LabelledRecording(file.path.name, lambda: (read,), file.state, file.conditions, file.run, file.unit)


@cache
def clean_summaries(folder: Path) -> dict[object, RecordingSummary]:
    """Return what was measured of each recording, so that a trial measures the spoilt ones alone."""
    return {one.parts: summarise_recording(one) for one in clean_set(folder)}


def findings_of(folder: Path, recordings: Iterable[LabelledRecording]) -> list[Finding]:
    """Return the warnings about a set that consists mostly of known recordings."""
    known = clean_summaries(folder)
    summaries = [
        replace(known[one.parts], recording=one) if one.parts in known else summarise_recording(one)
        for one in recordings
    ]
    found = find_faults(DataSummary(tuple(summaries)), {name: CHECKS[name] for name in CHECKS})
    return [one for one in found.findings if one.severity != NOTE]


def measure_trial(trial: Trial) -> Result:
    """Plant a fault again and again, and count what is found."""
    folder = trial.folder
    clean = findings_of(folder, clean_set(folder))
    about = {"set": folder.name, "fault": trial.fault, "recordings": len(clean_set(folder))}
    if trial.fault == CLEAN:
        return {**about, "warnings": [{"check": one.check, "found": one.found} for one in clean]}
    fault = PLANTED_FAULTS[trial.fault]
    known = {name for one in clean for name in one.recordings}
    planted = found = 0
    false: list[str] = []
    missed: list[int] = []
    for seed in range(trial.first_seed, trial.first_seed + trial.repetitions):
        spoilt = fault.plant(clean_set(folder), np.random.default_rng(seed))
        if spoilt is None:
            continue
        new = findings_of(folder, spoilt.recordings)
        planted += 1
        own = [one for one in new if one.check in fault.checks and concerns(one, spoilt) and one not in clean]
        found += bool(own)
        missed += [] if own else [seed]
        false += [
            f"{one.check}: {one.found}"
            for one in new
            if one.check not in fault.checks and not concerns(one, spoilt) and not known & set(one.recordings)
        ]
    return {
        **about,
        "checks": list(fault.checks),
        "planted": planted,
        "found": found,
        "false": false,
        "missed": missed,
    }


def concerns(finding: Finding, spoilt: SpoiltSet) -> bool:
    """Return whether a finding is about the spoilt recordings, or about the whole set if that was spoilt."""
    return bool(spoilt.names & set(finding.recordings)) if spoilt.names else not finding.recordings


def simulate_sets(folder: Path) -> None:
    """Write short steady recordings of both rigs in the form of the published sets."""
    for rig, (torques, speed) in RIG_SETS.items():
        place = folder / rig
        place.mkdir(parents=True, exist_ok=True)
        machine = RIGS[rig]()
        files, channels = [], []
        for state in machine.states:
            for torque in torques:
                for specimen in RIG_SPECIMENS:
                    made = machine.drive(
                        state, torque=torque, speed=speed, seconds=RIG_SECONDS, specimen=specimen, seed=specimen
                    )
                    channels = [name for name in made.channels if name != "key_phase"]
                    signal = made.select(channels).signal
                    scale = np.abs(signal).max(axis=1) / MAX_STEPS
                    name = f"{state}_{specimen}__{torque:g}Nm.npz"
                    np.savez_compressed(
                        place / name,
                        x=np.round(signal / scale[:, None]).T.astype(np.int16),
                        scale=scale.astype(np.float32),
                    )
                    files.append({"file": name, "class": state, "condition": {"torque_nm": torque}, "run": specimen})
        about = {"fs": made.sample_rate, "channels": channels, "units": "as simulated", "files": files}
        (place / META_FILE).write_text(json.dumps(about), encoding="utf-8")


def table_of(results: Sequence[Result]) -> Table:
    """Return how many of the planted faults were found in each set, and how many warnings were false."""
    sets = sorted({one["set"] for one in results})
    by_key = {(one["fault"], one["set"]): one for one in results}
    rows = []
    for fault in PLANTED_FAULTS:
        of_fault = [by_key.get((fault, name)) for name in sets]
        cells = ["" if one is None or not one["planted"] else f"{one['found']}/{one['planted']}" for one in of_fault]
        measured = [one for one in of_fault if one is not None]
        found, planted, false = (
            sum(one[key] for one in measured) if key != "false" else sum(len(one[key]) for one in measured)
            for key in ("found", "planted", "false")
        )
        share = f"{found / planted:.3f}" if planted else ""
        rows.append((fault, ", ".join(PLANTED_FAULTS[fault].checks), *cells, share, str(false)))
    warnings = [by_key.get((CLEAN, name)) for name in sets]
    clean = ["" if one is None else str(len(one["warnings"])) for one in warnings]
    rows.append(("nothing: warnings about the clean set", "all", *clean, "", ""))
    return Table("check-faults", ("fault", "check", *sets, "found", "false warnings"), tuple(rows))


def sets_below(folders: Sequence[Path]) -> list[Path]:
    """Return the folders of sets whose recordings have conditions."""
    found = sorted(path.parent for folder in folders for path in folder.glob(f"*/{META_FILE}"))
    return [folder for folder in found if "channels" in json.loads((folder / META_FILE).read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("simulate").add_argument("folder", type=Path)
    running = commands.add_parser("run")
    running.add_argument("folders", type=Path, nargs="+", help="folders of sets, and last the folder of the results")
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--repetitions", type=int, default=REPETITIONS)
    running.add_argument("--first-seed", type=int, default=FIRST_SEED)
    commands.add_parser("table").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "simulate":
        simulate_sets(options.folder)
        return
    if options.command == "run":
        *sources, results = options.folders
        trials = [
            Trial(folder, fault, options.repetitions, options.first_seed)
            for folder in sets_below(sources)
            for fault in (CLEAN, *PLANTED_FAULTS)
        ]
        measure_all(measure_trial, {trial.file(results): trial for trial in trials}, options.workers)
        options.folder = results
    print(table_of(read_folder(options.folder)).markdown())


if __name__ == "__main__":
    main()
