"""Reader for HDF5, and for MAT files of version 7.3, which are HDF5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from cgsa.data.readers import Reader
from cgsa.data.readers.arrays import ArrayContent, ArrayShape, Sliceable
from cgsa.data.readers.damage import parsing
from cgsa.data.readers.hdf5_contents import helper_contents
from cgsa.data.signal_file import SignalFile

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def open_hdf5(path: Path, array: str | None) -> SignalFile:
    """Return what an HDF5 file holds; links to other files are not followed."""
    found = helper_contents(path)
    arrays = {name: ArrayShape(tuple(shape), np.dtype(kind)) for name, (shape, kind) in found["arrays"].items()}
    texts = {name: tuple(text) for name, text in found["texts"].items()}

    @contextmanager
    def load(names: Sequence[str]) -> Iterator[Mapping[str, Sliceable]]:
        with parsing(path, "HDF5"), h5py.File(path, "r", locking=False) as opened:
            loaded: dict[str, Sliceable] = {}
            for name in names:
                dataset, _, part = (name, "", "") if name in opened else name.rpartition(".")
                loaded[name] = opened[dataset].fields(part) if part else opened[dataset]
            yield loaded

    return ArrayContent(path, "hdf5", load, arrays, found["scalars"], texts).signal_file(array)


READER = Reader(
    suffixes=(".h5", ".hdf5", ".hdf", ".he5", ".mat"),
    # A MAT file of version 7.3 has a header of 512 bytes before the signature.
    accepts=lambda head: head.startswith(SIGNATURE) or head[512:520] == SIGNATURE,
    open=open_hdf5,
)
