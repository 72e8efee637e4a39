"""Train on arrays, then watch a stream of blocks as they would arrive from a data logger.

python examples/stream_in_python.py
"""

from __future__ import annotations

import tempfile

import numpy as np
from pump import RATE, STATES, record

import cgsa

SPEEDS = (600, 900, 1200)
BLOCK = 512


def main() -> None:
    """Train, save, load, and print every change of the verdict."""
    labels = [state for state in STATES for _ in SPEEDS]
    speeds = np.array([float(speed) for _ in STATES for speed in SPEEDS])
    recordings = np.stack([record(state, speed) for state in STATES for speed in SPEEDS])
    classifier = cgsa.CgsaClassifier(sample_rate=RATE)
    classifier.fit(recordings, labels, conditions={"speed_rpm": speeds})
    print(f"accuracy at speeds left out of training: {classifier.held_out_accuracy_:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        classifier.save(f"{folder}/pump")
        machine = cgsa.load(f"{folder}/pump")
    machine.commission(record("healthy", 1050, seed=1), sample_rate=RATE)
    samples = np.concatenate([record(state, 1050, seed=2) for state in STATES], axis=1)
    shown, done = "", 0.0
    for rows in machine.stream(samples[:, begin : begin + BLOCK] for begin in range(0, samples.shape[1], BLOCK)):
        for time, verdict, alarm in zip(rows.time, rows.verdict, rows.alarm, strict=True):
            text = f"{verdict}, alarm {alarm or 'none'}"
            if text != shown:
                print(f"{time:6.1f} s: {text}")
            shown, done = text, float(time)
    print(f"{done:6.1f} s: end")


if __name__ == "__main__":
    main()
