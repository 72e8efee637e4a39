"""What an HDF5 file states, collected in a process of its own.

The HDF5 library may crash or never return on damaged texts. Here, that ends a helper process, which answers one path
per line and may compute for a second on each.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import h5py
import numpy as np

from cgsa.data.readers.damage import CURE, parsing
from cgsa.errors import CgsaError, DataError

CPU_SECONDS = 1.0
MEMORY = 1 << 30
"""Bytes that the helper may add after its start."""
MAX_OBJECTS = 2000
SMALL = 1024
"""Elements up to which a dataset is looked at for parameters."""
MAX_RATIO = 1100
"""Deflate, the strongest filter in use, packs at most so many bytes into one."""


class Hdf5Contents:
    """Datasets and attributes of a file; the names of attributes follow ``@``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, tuple[tuple[int, ...], str]] = {}
        """Shape and type of each dataset, or of each of its fields."""
        self.scalars: dict[str, float] = {}
        self.texts: dict[str, tuple[str, ...]] = {}
        self._count = 0
        with parsing(path, "HDF5"), h5py.File(path, "r", locking=False) as file:
            self._add("", file)
            file.visititems(self._add)

    def _add(self, name: str, thing: Any) -> None:
        self._count += 1
        if self._count > MAX_OBJECTS:
            raise DataError(f"{self.path}: has more than {MAX_OBJECTS} objects; {CURE}")
        self._add_attributes(f"{name}@", thing)
        if not isinstance(thing, h5py.Dataset) or name.startswith("#"):
            return
        if _is_text(thing):
            self.texts |= {name: _texts(thing)} if 0 < (thing.size or 0) <= SMALL else {}
        elif thing.size == 1 and thing.dtype.kind in "iuf":
            self.scalars[name] = float(np.asarray(thing[()]).reshape(-1)[0])
        elif thing.shape:
            _check_size(self.path, name, thing)
            if thing.dtype.fields is None:
                self.arrays[name] = thing.shape, thing.dtype.str
                return
            for part, (kind, *_) in thing.dtype.fields.items():
                self.arrays[f"{name}.{part}"] = (*thing.shape, *kind.shape), kind.base.str

    def _add_attributes(self, prefix: str, thing: Any) -> None:
        for key in thing.attrs:
            if key.startswith(("MATLAB_", "H5")) or key in {"CLASS", "TITLE", "VERSION"}:
                continue
            value = np.asarray(thing.attrs[key])
            if value.dtype.kind in "iuf" and value.size == 1:
                self.scalars[prefix + key] = float(value.reshape(-1)[0])
            elif value.dtype.kind in "SUO" and 0 < value.size <= SMALL:
                self.texts[prefix + key] = tuple(_text(part) for part in value.reshape(-1))


def _is_text(dataset: Any) -> bool:
    strings = h5py.check_string_dtype(dataset.dtype) is not None or dataset.dtype == h5py.ref_dtype
    return strings or _is_char(dataset)


def _is_char(dataset: Any) -> bool:
    """Return whether a dataset holds MATLAB's characters."""
    return bool(dataset.attrs.get("MATLAB_class", b"") == b"char")


def _texts(dataset: Any) -> tuple[str, ...]:
    """Return the strings of a dataset: plain ones, MATLAB's characters, or its cells of characters."""
    value = np.asarray(dataset[()])
    if _is_char(dataset):
        # MATLAB stores a matrix of characters by columns.
        return tuple("".join(map(chr, row)).strip() for row in np.atleast_2d(value).T)
    if dataset.dtype == h5py.ref_dtype:
        parts = [dataset.file[reference] for reference in value.reshape(-1) if reference]
        return tuple(
            "".join(map(chr, np.asarray(part[()]).reshape(-1)))
            for part in parts
            if isinstance(part, h5py.Dataset) and part.dtype.kind == "u" and part.size <= SMALL
        ) or ("",)
    return tuple(_text(part) for part in value.reshape(-1))


def _text(value: object) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def _check_size(path: Path, name: str, dataset: Any) -> None:
    """Refuse a dataset that states more data than the file can hold, before memory is allocated for it."""
    stored, stated = dataset.id.get_storage_size(), dataset.size * dataset.dtype.itemsize
    if dataset.external is not None or dataset.is_virtual:
        raise DataError(f"{path}: dataset {name!r} refers to other files; export one file with the samples in it")
    if stored > path.stat().st_size or stated > MAX_RATIO * stored:
        raise DataError(
            f"{path}: dataset {name!r} of shape {dataset.shape} states {stated} bytes, but {stored} are stored in the "
            f"file; {CURE}"
        )


class _Helper:
    """The process that collects; it starts with the first file and ends with this one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def contents(self, path: Path) -> dict[str, Any]:
        """Return what a file states, or raise the error of the helper."""
        with self._lock:
            process = self._process = self._process or self._start()
            if process.stdin is None or process.stdout is None:
                raise DataError(f"{path}: the process that reads HDF5 files has no pipes")
            process.stdin.write(json.dumps(str(path.resolve())) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                self._end()
                raise DataError(f"{path}: the HDF5 library cannot read it and does not return; {CURE}")
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            raise DataError(found["error"].replace(str(path.resolve()), str(path)))
        return found

    def _start(self) -> subprocess.Popen[str]:
        atexit.register(self._end)
        return subprocess.Popen(
            [sys.executable, "-m", "cgsa.data.readers.hdf5_contents"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def _end(self) -> None:
        atexit.unregister(self._end)
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


helper_contents = _Helper().contents
"""Returns ``arrays``, ``scalars`` and ``texts`` of an HDF5 file."""


def _serve() -> None:
    """Answer paths on standard input, one per line."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for line in sys.stdin:
        # The default action of the signal ends the process, wherever it is.
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            found = Hdf5Contents(Path(json.loads(line)))
            answer = {"arrays": found.arrays, "scalars": found.scalars, "texts": found.texts}
        except CgsaError as error:
            answer = {"error": str(error)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
