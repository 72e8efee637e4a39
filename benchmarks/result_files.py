"""Results of benchmarks as files: one per measurement, so that an interrupted script resumes, or one line each.

A script measures in worker processes and writes one JSON file per measurement into a folder. The repository keeps the
measurements of a folder as one file with a line each (``python -m benchmarks.publish results``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import torch

from cgsa.errors import DataError
from cgsa.files import replacing

T = TypeVar("T")
Result: TypeAlias = Mapping[str, Any]
"""One measurement, as JSON values."""


def measure_all(measure: Callable[[T], Result], items: Mapping[Path, T], workers: int) -> list[Result]:
    """Measure every item that has no file yet, and return all results; keys are the paths of the files."""
    unfinished = {path: item for path, item in items.items() if not path.exists()}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_with_one_thread, measure, item): path for path, item in unfinished.items()}
        for done, finished in enumerate(as_completed(jobs), start=len(items) - len(unfinished) + 1):
            write_result(jobs[finished], finished.result())
            print(f"\r{done} of {len(items)} measured", end="", flush=True)
    print()
    return [json.loads(path.read_text(encoding="utf-8")) for path in items]


def _with_one_thread(measure: Callable[[T], Result], item: T) -> Result:
    torch.set_num_threads(1)
    return measure(item)


def write_result(path: Path, result: Result) -> None:
    """Write one result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, DataError) as fresh:
        fresh.write_text(json.dumps(result), encoding="utf-8")


def read_folder(folder: Path) -> list[Result]:
    """Return the results in a folder, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def write_lines(path: Path, results: Sequence[Result]) -> None:
    """Write results as one file with a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")


def merged(earlier: Sequence[Result], measured: Sequence[Result], key: Sequence[str]) -> list[Result]:
    """Return earlier results with what was measured again, by the fields that tell one result from another.

    Fields that were not measured again keep their values, and so do results; new results come last.
    """
    found: dict[tuple[object, ...], Result] = {}
    for result in (*earlier, *measured):
        place = tuple(result[name] for name in key)
        found[place] = {**found.get(place, {}), **result}
    return list(found.values())


def read_lines(path: Path) -> list[Result]:
    """Return the results in a file with a line each."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
