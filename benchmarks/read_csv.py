"""How long does reading a gearbox file take? Compared with a bare CSV parse of the same file by pyarrow.

Run as ``python benchmarks/read_csv.py``; it prints a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from cgsa.data.mcc5.recordings import GEARBOX_COLUMNS
from cgsa.data.readers import read_recording

NAME = "gear_wear_H_torque_circulation_1000rpm_20Nm.csv"


def write_sample(path: Path, rows: int) -> None:
    """Write a file whose values have the range and the digits of a real one."""
    rng = np.random.default_rng(0)
    turns = np.arange(rows) * 1000 / 60 / 12_800
    columns = rng.normal(0, 0.3, (len(GEARBOX_COLUMNS), rows))
    columns[0] = np.where(turns % 1 < 0.11, 3.8, 0.0) + rng.normal(0, 0.05, rows)
    columns[1] = rng.normal(3.4, 0.05, rows)
    table = pa.table([np.round(column, 8) for column in columns], names=list(GEARBOX_COLUMNS))
    csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=768_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        write_sample(path, options.rows)
        size = path.stat().st_size / 1e6
        # One untimed pass of each, so that imports and the file cache favour neither.
        csv.read_csv(path)
        read_recording(path)
        # Alternate, so that other load on the computer affects both alike.
        pairs = [
            (seconds(lambda: csv.read_csv(path)), seconds(lambda: read_recording(path))) for _ in range(options.repeat)
        ]
    bare, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(ours / bare for bare, ours in pairs)
    print(f"{options.rows:,} rows, {size:.0f} MB, {options.repeat} repetitions, {pa.cpu_count()} threads\n")
    print("| function | median s | MB/s |")
    print("|---|---|---|")
    print(f"| pyarrow.csv.read_csv | {bare:.3f} | {size / bare:.0f} |")
    print(f"| read_recording | {ours:.3f} | {size / ours:.0f} |")
    print(f"\nmedian ratio: {ratio:.2f}")


if __name__ == "__main__":
    main()
