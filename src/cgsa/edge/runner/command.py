"""The command line: recordings in, verdicts over time or events out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from .machine import EdgeMachine
from .package import EdgeError, EdgePackage
from .recordings import STANDARD_INPUT, read_blocks

PACKAGE = Path(__file__).parent.parent


def run(arguments: Sequence[str] | None = None) -> int:
    """Diagnose recordings, and return the exit status."""
    parser = argparse.ArgumentParser(prog="run.py", description="Diagnose recordings with an exported model.")
    parser.add_argument(
        "recordings",
        nargs="+",
        help=f".csv, .npy, .npz or .wav files in the order in which they were made; {STANDARD_INPUT} reads raw "
        "samples from standard input: little-endian single precision, all channels of a sample side by side",
    )
    parser.add_argument("--json", action="store_true", help="print one event per batch of windows, one per line")
    parser.add_argument("--healthy-start", action="store_true", help="the machine is known to be healthy at first")
    parser.add_argument("--scale", type=float, default=1.0, help="factor from the samples to the units of the model")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="folder that cgsa export wrote")
    options = parser.parse_args(arguments)
    try:
        machine = EdgeMachine(EdgePackage(options.package), healthy_start=options.healthy_start)
        events = diagnose_files(machine, options.recordings, scale=options.scale)
        for line in _lines(events) if options.json else _table(events):
            print(line, flush=True)
    except EdgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


def diagnose_files(machine: EdgeMachine, recordings: Iterable[str], *, scale: float = 1.0) -> Iterator[dict[str, Any]]:
    """Yield the events of recordings, one after the other."""
    for path in recordings:
        machine.source = path
        for samples in read_blocks(path, machine.package, scale=scale):
            yield from machine.add(samples)
        yield from machine.end()


def _lines(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(event) for event in events)


def _table(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield one line per interval with one state, alarm and question."""

    def what(event: dict[str, Any]) -> tuple[str, ...]:
        commissioning = event.get("commissioning") or {}
        waiting = commissioning["text"] if commissioning.get("state") == "question" else ""
        alarm = f"ALARM {event['alarm']}" if event["alarm"] else ""
        return event["source"], event["state"], alarm, event["sensor_question"] or "", waiting

    for (source, *found), group in groupby(events, key=what):
        interval = list(group)
        span = f"{interval[0]['begin']:8.1f} s to {interval[-1]['end']:8.1f} s"
        yield f"{Path(source).name}  {span}  {'  '.join(one for one in found if one)}"
