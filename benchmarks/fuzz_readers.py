"""What do the readers make of damaged files? Each format is damaged in thousands of ways, and read in workers.

    nice python -m benchmarks.fuzz_readers --count 10000
    nice python -m benchmarks.fuzz_readers --count 1000 --formats wav "mdf4, packed" --workers 2

A small valid file of each format is damaged at random: flipped bits, a cut end, inserted, repeated, deleted or zeroed
bytes, extreme numbers in the header. A worker reads the result; it has 5 s, and 1 GiB more address space than after its
start. Afterwards the table says how many files were *refused* (with an error that names the file), read as the *same*
recording, read as another one with a *note* on what is unusual (such as a gap of the clock), or read as another one
unnoticed: with *other values* (a format without a checksum cannot tell a damaged sample from a real one), of *other
length*, or with another *header* (names, units or rate: texts that few formats protect). Crashes (anything but an error
of cgsa) and hangs should be none. The seed fixes every damage, so that ``--only INDEX`` repeats
one. Results are one JSON file per format in ``--out``; ``python -m benchmarks.publish measurements`` publishes them.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from benchmarks.result_files import Result, write_result
from tests.data.readers.writers import FORMATS

from cgsa.bench.tables import Table
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.errors import CgsaError

SECONDS = 5.0
START_SECONDS = 120.0
"""For the imports of a worker."""
MEMORY = 1 << 30
"""Bytes of address space that a worker may add after its start."""
SAMPLES = 600
HEADER = 512
EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
OUTCOMES = ("refused", "same", "noted", "other values", "other length", "other header", "crash", "hang")
Damage = Callable[[bytearray, np.random.Generator], None]


def example() -> Recording:
    rng = np.random.default_rng(0)
    time = np.arange(SAMPLES) / 12_800
    signal = np.stack([np.sin(2 * np.pi * 50 * time), rng.normal(size=SAMPLES), 10 * rng.normal(size=SAMPLES)])
    return Recording(signal.astype(np.float32), 12_800.0, ("ax", "ay", "current"), ("g", "m/s^2", "A"))


def flip_bits(data: bytearray, rng: np.random.Generator) -> None:
    for place in rng.integers(0, 8 * len(data), rng.integers(1, 9)):
        data[place // 8] ^= 1 << (place % 8)


def cut_end(data: bytearray, rng: np.random.Generator) -> None:
    del data[rng.integers(0, len(data)) :]


def insert_bytes(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(0, len(data) + 1))
    data[place:place] = rng.bytes(int(rng.integers(1, 65)))


def repeat_block(data: bytearray, rng: np.random.Generator) -> None:
    begin = int(rng.integers(0, len(data)))
    block = bytes(data[begin : begin + int(rng.integers(1, 2049))])
    data[begin:begin] = block * int(rng.integers(1, 5))


def delete_block(data: bytearray, rng: np.random.Generator) -> None:
    begin = int(rng.integers(0, len(data)))
    del data[begin : begin + int(rng.integers(1, 2049))]


def zero_block(data: bytearray, rng: np.random.Generator) -> None:
    begin = int(rng.integers(0, len(data)))
    end = min(begin + int(rng.integers(1, 513)), len(data))
    data[begin:end] = bytes(end - begin)


def edit_header(data: bytearray, rng: np.random.Generator) -> None:
    for _ in range(int(rng.integers(1, 4))):
        width = int(rng.choice([1, 2, 4, 8]))
        begin = int(rng.integers(0, min(HEADER, len(data))))
        value = int(rng.choice(np.array(EXTREMES, np.uint64))) & (1 << 8 * width) - 1
        data[begin : begin + width] = value.to_bytes(width, "little")


def edit_last_part(data: bytearray, rng: np.random.Generator) -> None:
    """Like a header edit, in the last bytes, where Parquet and ZIP have their tables."""
    part = bytearray(data[-HEADER:])
    edit_header(part, rng)
    data[-HEADER:] = part


DAMAGES: tuple[Damage, ...] = (
    flip_bits, cut_end, insert_bytes, repeat_block, delete_block, zero_block, edit_header, edit_last_part,
)  # fmt: skip


def damaged(whole: bytes, seed: int, index: int) -> tuple[str, bytes]:
    """Return the kind of a damage, and the damaged file; the whole file at index -1."""
    if index < 0:
        return "none", whole
    rng = np.random.default_rng([seed, index])
    damage = DAMAGES[index % len(DAMAGES)]
    data = bytearray(whole)
    damage(data, rng)
    return damage.__name__, bytes(data)


def read(name: str, path: Path) -> Recording:
    written, original = FORMATS[name], example()
    return read_recording(
        path,
        sample_rate=None if written.states_rate else original.sample_rate,
        channels=None if written.states_names else original.channels,
        units=None if written.states_units else original.units,
    )


def outcome(name: str, path: Path, original: Recording) -> tuple[str, str]:
    """Return what reading a damaged file gives, with the message of an error."""
    try:
        found = read(name, path)
    except CgsaError as error:
        return ("refused", str(error)) if path.name in str(error) else ("crash", f"file not named: {error}")
    except Exception as error:  # the crashes that are counted
        return "crash", f"{type(error).__name__}: {error}"
    same_header = (found.channels, found.units, found.sample_rate) == (
        original.channels,
        original.units,
        original.sample_rate,
    )
    same_values = np.array_equal(found.signal, original.signal)
    more = [note for note in found.notes if note not in original.notes]
    kinds = {
        "same": same_header and same_values,
        "noted": bool(more),
        "other header": not same_header,
        "other length": found.samples != original.samples,
        "other values": True,
    }
    return next(kind for kind, applies in kinds.items() if applies), "; ".join(more)


def work(name: str, folder: Path, seed: int) -> None:
    """Read the indices of damages from standard input, and print an outcome for each."""
    whole = (folder / f"whole{FORMATS[name].suffix}").read_bytes()
    original = read(name, folder / f"whole{FORMATS[name].suffix}")
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = folder / f"damaged-{time.monotonic_ns()}{FORMATS[name].suffix}"
    for line in sys.stdin:
        kind, data = damaged(whole, seed, int(line))
        path.write_bytes(data)
        result, message = outcome(name, path, original) if data else ("refused", "")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            json.dumps({"index": int(line), "kind": kind, "outcome": result, "message": message, "grown": grown}),
            flush=True,
        )


class Worker:
    """A process that reads damaged files, and is replaced where it dies or hangs."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.fuzz_readers", "--work", name]
        self._command += ["--folder", str(folder), "--seed", str(seed)]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = self._command  # this script itself
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def read(self, index: int, limit: float) -> Result:
        """Return the outcome of one damage."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the worker has no pipes")
        begun = time.monotonic()
        stdin.write(f"{index}\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], limit)
        line = stdout.readline() if ready else ""
        if line:
            return {**json.loads(line), "seconds": time.monotonic() - begun}
        self.close()
        code = self._process.returncode
        if index < 0:
            raise RuntimeError(f"{' '.join(self._command)} does not start: it ended with {code}")
        self._process = self._start()
        self.read(-1, START_SECONDS)
        kind = DAMAGES[index % len(DAMAGES)].__name__
        found = ("crash", f"the process ended with {code}") if ready else ("hang", f"more than {limit:g} s")
        return {"index": index, "kind": kind, "outcome": found[0], "message": found[1], "grown": 0.0, "seconds": limit}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def measure(name: str, indices: Sequence[int], seed: int, workers: int) -> list[Result]:
    """Return the outcomes of damages to one format."""
    with tempfile.TemporaryDirectory() as text, ThreadPoolExecutor(workers) as pool:
        folder = Path(text)
        FORMATS[name].write(example(), folder / f"whole{FORMATS[name].suffix}")
        crew = [Worker(name, folder, seed) for _ in range(workers)]

        def run(number: int) -> list[Result]:
            crew[number].read(-1, START_SECONDS)  # the imports, without the limit
            return [crew[number].read(index, SECONDS) for index in indices[number::workers]]

        try:
            return [result for part in pool.map(run, range(workers)) for result in part]
        finally:
            for worker in crew:
                worker.close()
            shutil.rmtree(folder, ignore_errors=True)


def summary(name: str, results: Sequence[Result], seed: int) -> Result:
    counts = Counter(result["outcome"] for result in results)
    return {
        "format": name,
        "seed": seed,
        "files": len(results),
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "slowest_s": round(max(result["seconds"] for result in results), 3),
        "memory_mb": round(max(result["grown"] for result in results), 1),
    }


def table_of(results: Sequence[Result]) -> Table:
    """Return the shares of the outcomes for every format."""
    rows = [
        [
            result["format"],
            f"{result['files']:,}",
            *(f"{100 * result[name] / result['files']:.2f} %" for name in OUTCOMES[:6]),
            str(result["crash"]),
            str(result["hang"]),
            f"{result['slowest_s']:.2f} s",
            f"{result['memory_mb']:.0f} MB",
        ]
        for result in results
    ]
    header = ("format", "files", *OUTCOMES[:6], "crashes", "hangs", "slowest", "memory")
    return Table("fuzz_readers", header, tuple(map(tuple, rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files per format")
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, help="the index of a single damage, whose outcome is printed")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz_readers"))
    parser.add_argument("--work", choices=list(FORMATS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.folder, options.seed)
        return
    summaries = []
    for name in options.formats:
        indices = range(options.count) if options.only is None else [options.only]
        results = measure(name, indices, options.seed, options.workers)
        for result in results:
            if result["outcome"] in {"crash", "hang"} or options.only is not None:
                print(f"{name}: {json.dumps(result)}", flush=True)
        summaries.append(summary(name, results, options.seed))
        print(json.dumps(summaries[-1]), flush=True)
        if options.only is None:
            write_result(options.out / f"{name.replace(', ', '-').replace(' ', '-')}.json", summaries[-1])
    print(table_of(summaries).markdown())


if __name__ == "__main__":
    main()
