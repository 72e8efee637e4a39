"""Writers of every format that is read, for tests and for the fuzzing of the readers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import soundfile
from asammdf import MDF, Signal
from nptdms import ChannelObject, TdmsWriter
from pyarrow import parquet
from scipy.io import savemat

from cgsa.data.recording import FloatArray, Recording


@dataclass(frozen=True)
class Written:
    """How a format keeps what is written."""

    suffix: str
    write: Callable[[Recording, Path], None]
    tolerance: float = 0.0
    """Largest difference from the original, as a share of the largest value; 0 means the same float32."""
    states_rate: bool = True
    states_names: bool = True
    states_units: bool = True
    full_scale: bool = False
    """Whether samples are stored as parts of the largest."""


def csv_text(recording: Recording, delimiter: str = ",", decimal: str = ".", *, units_row: bool = False) -> str:
    """Return a table with a time column; nine digits keep every float32."""
    time = [f"{value:.9f}" for value in np.arange(recording.samples) / recording.sample_rate]
    cells = [time, *([f"{value:.9g}" for value in row.tolist()] for row in recording.signal)]
    rows = [delimiter.join(row).replace(".", decimal) for row in zip(*cells, strict=True)]
    names, units = ["time", *recording.channels], ["s", *recording.units]
    if units_row:
        head = [delimiter.join(names), delimiter.join(units)]
    else:
        head = [delimiter.join(f"{name} [{unit}]" for name, unit in zip(names, units, strict=True))]
    return "\n".join([*head, *rows]) + "\n"


def write_csv(recording: Recording, path: Path) -> None:
    path.write_text(csv_text(recording), encoding="utf-8")


def write_german_csv(recording: Recording, path: Path) -> None:
    path.write_text(csv_text(recording, ";", ",", units_row=True), encoding="utf-8-sig")


def write_utf16_tsv(recording: Recording, path: Path) -> None:
    path.write_text(csv_text(recording, "\t", ",", units_row=True), encoding="utf-16")


def write_columns(recording: Recording, path: Path) -> None:
    fields = [
        pa.field(name, pa.float32(), metadata={"unit": unit})
        for name, unit in zip(recording.channels, recording.units, strict=True)
    ]
    schema = pa.schema(fields, metadata={"sample_rate": repr(recording.sample_rate)})
    parquet.write_table(pa.table([pa.array(row) for row in recording.signal], schema=schema), path)


def write_npz(recording: Recording, path: Path) -> None:
    np.savez_compressed(
        path,
        x=recording.signal.T,
        sample_rate=recording.sample_rate,
        channels=np.array(recording.channels),
        units=np.array(recording.units),
    )


def write_npy(recording: Recording, path: Path) -> None:
    np.save(path, recording.signal.T)


def write_mat5(recording: Recording, path: Path) -> None:
    content = {
        "x": recording.signal.T,
        "fs": recording.sample_rate,
        "channels": np.array(recording.channels, object),
        "units": np.array(recording.units, object),
    }
    savemat(path, content, do_compression=True)


def write_mat73(recording: Recording, path: Path) -> None:
    """Write as MATLAB does: after 512 bytes of text, arrays transposed, characters as numbers, cells as references."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = recording.signal
        file["x"].attrs["MATLAB_class"] = np.bytes_("single")
        file["fs"] = np.full((1, 1), recording.sample_rate)
        file["fs"].attrs["MATLAB_class"] = np.bytes_("double")
        for name, texts in (("channels", recording.channels), ("units", recording.units)):
            cells = []
            for place, text in enumerate(texts):
                cell = file.create_dataset(f"#refs#/{name}{place}", data=np.array([[ord(c)] for c in text], np.uint16))
                cell.attrs["MATLAB_class"] = np.bytes_("char")
                cells.append(cell.ref)
            dataset = file.create_dataset(name, (len(cells), 1), h5py.ref_dtype)
            dataset[:, 0] = cells
            dataset.attrs["MATLAB_class"] = np.bytes_("cell")
    head = b"MATLAB 7.3 MAT-file, Platform: test".ljust(124) + struct.pack("<H2s", 0x0200, b"IM")
    with path.open("r+b") as opened:
        opened.write(head)


def write_hdf5(recording: Recording, path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("run/signals", data=recording.signal.T, compression="gzip", fletcher32=True)
        dataset.attrs["sample_rate"] = recording.sample_rate
        dataset.attrs["channels"] = list(recording.channels)
        dataset.attrs["units"] = list(recording.units)


def write_wav(recording: Recording, path: Path) -> None:
    channels, rate = len(recording.channels), round(recording.sample_rate)
    raw = np.ascontiguousarray(recording.signal.T, "<f4").tobytes()
    form = struct.pack("<HHIIHH", 3, channels, rate, rate * 4 * channels, 4 * channels, 32)
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(raw)) + raw
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def write_flac(recording: Recording, path: Path) -> None:
    scale = float(np.abs(recording.signal).max()) or 1.0
    whole = np.clip(np.round(recording.signal.T / scale * 2**23), -(2**23), 2**23 - 1).astype(np.int32) << 8
    soundfile.write(path, whole, round(recording.sample_rate), subtype="PCM_24")


def write_tdms(recording: Recording, path: Path) -> None:
    with TdmsWriter(path) as writer:
        writer.write_segment([
            ChannelObject(
                "measurement", name, row, {"wf_increment": 1 / recording.sample_rate, "unit_string": unit}
            )
            for name, unit, row in zip(recording.channels, recording.units, recording.signal, strict=True)
        ])  # fmt: skip


def _uff58(recording: Recording, path: Path, values: Callable[[FloatArray], bytes], kind: int, head: str) -> None:
    with path.open("wb") as file:
        for name, unit, row in zip(recording.channels, recording.units, recording.signal, strict=True):
            raw = values(row)
            lines = [
                "    -1",
                head.format(len(raw)),
                *(name, "NONE", "NONE", "NONE", "NONE"),
                f"{1:5d}{0:10d}{0:5d}{0:10d} {'NONE':10s}{1:10d}{1:4d} {'NONE':10s}{0:10d}{0:4d}",
                f"{kind:10d}{row.size:10d}{1:10d}{0.0:13.5E}{1 / recording.sample_rate:13.5E}{0.0:13.5E}",
                f"{17:10d}{0:5d}{0:5d}{0:5d} {'Time':20s} {'s':20s}",
                *(f"{12:10d}{0:5d}{0:5d}{0:5d} {'Acceleration':20s} {unit:20s}" for _ in range(3)),
            ]
            file.write("\n".join([*lines, ""]).encode() + raw + b"    -1\n")


def _fixed(row: FloatArray, width: int, digits: int, per_line: int) -> bytes:
    cells = [f"{value:{width}.{digits}E}" for value in row.tolist()]
    lines = ["".join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    return ("\n".join(lines) + "\n").encode()


def write_uff58(recording: Recording, path: Path) -> None:
    _uff58(recording, path, lambda row: _fixed(row, 20, 12, 4), 4, f"{58:6d}")


def write_uff58_single(recording: Recording, path: Path) -> None:
    _uff58(recording, path, lambda row: _fixed(row, 13, 5, 6), 2, f"{58:6d}")


def write_uff58b(recording: Recording, path: Path) -> None:
    head = f"{58:6d}b{1:6d}{2:6d}{11:12d}{{:12d}}{0:6d}{0:6d}{0:12d}{0:12d}"
    _uff58(recording, path, lambda row: row.astype("<f4").tobytes(), 2, head)


def write_mdf4(recording: Recording, path: Path, compression: int = 0) -> None:
    time: npt.NDArray[np.float64] = np.arange(recording.samples) / recording.sample_rate
    with MDF(version="4.10") as file:
        file.start_time = datetime(2020, 1, 1, tzinfo=UTC)
        file.append([
            Signal(row, time, unit=unit, name=name)
            for name, unit, row in zip(recording.channels, recording.units, recording.signal, strict=True)
        ])  # fmt: skip
        file.save(path, overwrite=True, compression=compression)


def write_packed_mdf4(recording: Recording, path: Path) -> None:
    write_mdf4(recording, path, compression=2)


FORMATS = {
    "csv": Written(".csv", write_csv),
    "csv, semicolon, decimal comma": Written(".csv", write_german_csv),
    "csv, tab, UTF-16": Written(".tsv", write_utf16_tsv),
    "parquet": Written(".parquet", write_columns),
    "npz": Written(".npz", write_npz),
    "npy": Written(".npy", write_npy, states_rate=False, states_names=False, states_units=False),
    "mat 5": Written(".mat", write_mat5),
    "mat 7.3": Written(".mat", write_mat73),
    "hdf5": Written(".h5", write_hdf5),
    "wav": Written(".wav", write_wav, states_names=False, states_units=False),
    "flac": Written(".flac", write_flac, 2.0**-22, states_names=False, states_units=False, full_scale=True),
    "tdms": Written(".tdms", write_tdms),
    "uff58, double": Written(".uff", write_uff58),
    "uff58, single": Written(".uff", write_uff58_single, 5e-6),
    "uff58b": Written(".uff", write_uff58b),
    "mdf4": Written(".mf4", write_mdf4),
    "mdf4, packed": Written(".mf4", write_packed_mdf4),
}
