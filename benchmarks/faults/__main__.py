"""Does anything that befalls a service change a verdict? Machines under faults in random order, against a quiet run.

    python -m benchmarks.faults --seconds 3600 --machines 16

Machines send their streams over HTTP, and a quarter of them through an MQTT broker if Mosquitto is installed. Their
senders restart, their clocks jump and their records are odd; meanwhile the disk is full or broken, the store cannot be
written, handles run out, service and broker are killed, garbage and guessed tokens arrive, a thousand connections stay
half open, and eight readers read without a pause, in random order and two at a time. In the
end the same inputs are processed without any fault. No block that was answered with 202 may be missing in the journal;
every diagnosis, every row of the ledger and every alarm must be bit-identical and there once; no watch may have
stopped; and each fault must have been told.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from benchmarks.faults.compare import differences, inputs_of, run_quietly
from benchmarks.faults.registry import load_faults
from benchmarks.faults.run import FaultRun, strike_until
from benchmarks.faults.streams import CHANNELS, EVENTS, RATE, WRONG_CLOCK, StreamEvent, make_stream
from benchmarks.kills import make_model

from cgsa.data.windows import WindowSpec
from cgsa.live.intake.block import Block

LONGEST = 3600.0
"""Seconds of stream that the journals keep as a whole, so that they can be compared."""


@dataclass
class FaultReport:
    """The outcome of the comparison."""

    machines: int
    seconds: float
    struck: dict[str, int] = field(default_factory=dict)
    """How often each fault befell the service."""
    events: dict[str, int] = field(default_factory=dict)
    """How often each thing happened in the streams."""
    answers: dict[int, int] = field(default_factory=dict)
    """Answers of the service to blocks, by status."""
    restarts: int = 0
    readmitted: int = 0
    acknowledged: int = 0
    """Blocks that were answered with 202."""
    diagnoses: int = 0
    lost: list[str] = field(default_factory=list)
    """Blocks that were answered with 202 and are not in the journal."""
    differences: list[str] = field(default_factory=list)
    """What differs from the quiet run."""
    stopped: list[str] = field(default_factory=list)
    """Machines that are not monitored at the end."""
    untold: list[str] = field(default_factory=list)
    """Faults and events that were not reported."""


def measure(seconds: float, machines: int, speed: float, seed: int, patience: float) -> FaultReport:
    """Run a service under faults, and compare it with a quiet one."""
    torch.set_num_threads(1)
    rng, events = random.Random(seed), list[StreamEvent]()  # noqa: S311 - no secret
    names = tuple(f"m{number:02d}" for number in range(machines))
    faults = load_faults()
    with tempfile.TemporaryDirectory() as workspace:
        model, ours, quiet = (Path(workspace) / name for name in ("model", "faulty", "quiet"))
        make_model(model, rate=RATE, channels=CHANNELS, window=WindowSpec(256, 32))
        run = FaultRun(ours, model, names, mqtt=machines // 4, patience=patience)
        streams = {
            name: make_stream(
                name, seconds, rng, events, kinds=EVENTS if name in run.by_mqtt else (*EVENTS, WRONG_CLOCK)
            )
            for name in names
        }
        run.start_service()
        struck = _befall(run, streams, [name for name, one in faults.items() if one.applies(run)], speed, seed)
        report = FaultReport(machines, seconds, dict(struck), dict(Counter(event.name for event in events)))
        _settle(run, report)
        run.stop_service()
        run.stop_broker()
        inputs = {name: inputs_of(ours, name) for name in names}
        logging.disable(logging.ERROR)  # That odd records cannot be processed has been logged already.
        run_quietly(quiet, model, inputs)
        arrived = {name: {_key(one) for one in entries if isinstance(one, Block)} for name, entries in inputs.items()}
        for name, taken in arrived.items():
            report.lost += [f"{name}: {block}" for block in sorted(run.acknowledged[name] - taken)]
            report.acknowledged += len(run.acknowledged[name])
            found, count = differences(ours, quiet, name)
            report.differences += found
            report.diagnoses += count
        report.untold = sorted({fault.name for fault in run.struck if not (fault.cut_short or fault.told())})
        # What the broker lost when it was killed never came; that it was down has been told.
        came = [one for one in events if one.name == WRONG_CLOCK or _key(one.block) in arrived[one.block.machine]]
        report.untold += _untold_events(run, {one.name for one in came})
    report.answers, report.restarts, report.readmitted = dict(run.answers), run.restarts, run.readmitted
    return report


def _key(block: Block) -> tuple[int, float]:
    return block.sequence, block.time


def _befall(run: FaultRun, streams: dict[str, list[Block]], names: list[str], speed: float, seed: int) -> Counter[str]:
    """Send all streams while faults strike; return how often each did."""
    senders = [
        threading.Thread(target=run.publish if name in run.by_mqtt else run.send, args=(blocks, speed))
        for name, blocks in streams.items()
    ]
    done, struck = threading.Event(), Counter[str]()
    strikers = [
        threading.Thread(target=strike_until, args=(run, done, names, struck, seed + number)) for number in range(2)
    ]
    operator = threading.Thread(target=run.operate, args=(done,))
    for thread in (*senders, *strikers, operator):
        thread.start()
    for thread in senders:
        thread.join()
    done.set()
    for thread in (*strikers, operator):
        thread.join()
    return struck


def _settle(run: FaultRun, report: FaultReport, patience: float = 120.0) -> None:
    """Wait until everything is processed and nothing fails any more; report machines that do not get on for a while."""
    left: object = None
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = run.status()
        report.stopped = [
            f"{one['machine']}: {one['work']}, {one['problem']}" for one in found if one["work"] != "working"
        ]
        if found and not report.stopped and not any(one["waiting"] for one in found):
            break
        counts = [one["counts"] for one in found]
        if counts != left:
            # A computer with other work may take its time.
            left, end = counts, time.monotonic() + patience
        time.sleep(0.2)
    # Notes of the recovery, and a last state.
    time.sleep(1.5)


def _untold_events(run: FaultRun, events: set[str]) -> list[str]:
    """Return what happened in the streams without a note."""
    notes = {
        "odd record": "skipped: IndexError",
        "not a number": "not a number",
        "restart": "sender restarted",
        "clock ahead": "clock jump",
        "clock behind": "clock jump",
        "missing": "blocks missing",
        WRONG_CLOCK: "admitted anew",
    }
    # A sender that counts from 0 again soon reaches the number that is expected; then its clock has jumped.
    others = {WRONG_CLOCK: "clock jump"}
    return [
        event
        for event in sorted(events)
        if not (run.was_noted(notes[event]) or run.was_noted(others.get(event, notes[event])))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="seconds of stream per machine")
    parser.add_argument("--machines", type=int, default=16)
    parser.add_argument("--speed", type=float, default=20.0, help="multiple of real time")
    parser.add_argument("--patience", type=float, default=1.0, help="how long faults last, as a multiple")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not 0 < options.seconds <= LONGEST:
        raise SystemExit(f"--seconds {options.seconds:g}; expected up to {LONGEST:g}")
    found = measure(options.seconds, options.machines, options.speed, options.seed, options.patience)
    print(json.dumps(asdict(found)))
    if found.lost or found.differences or found.stopped or found.untold:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
