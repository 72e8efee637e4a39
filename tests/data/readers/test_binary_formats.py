"""What is particular to single binary formats."""

from __future__ import annotations

import struct
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from asammdf import MDF, Signal
from nptdms import ChannelObject, TdmsWriter

from cgsa.data.readers import open_signal
from cgsa.data.readers.hdf5_contents import Hdf5Helper
from cgsa.data.readers.mdf4 import _Channel
from cgsa.errors import DataError
from tests.data.readers.test_every_format import example
from tests.data.readers.writers import write_flac, write_hdf5, write_mdf4, write_tdms, write_uff58b, write_wav

TIME = np.arange(500) / 1000


def mdf(path: Path, *groups: list[Signal]) -> Path:
    with MDF(version="4.10") as file:
        file.start_time = datetime(2020, 1, 1, tzinfo=UTC)
        for group in groups:
            file.append(group)
        file.save(path, overwrite=True)
    return path


def test_raw_numbers_of_mdf4_are_converted(tmp_path: Path) -> None:
    raw = np.arange(-250, 250).astype(np.int16)
    linear = Signal(raw, TIME, name="ax", unit="g", conversion={"a": 0.5, "b": 3.0})
    rational = Signal(raw, TIME, name="n", conversion={"P1": 0, "P2": 2, "P3": 1, "P4": 0, "P5": 0, "P6": 4})

    file = open_signal(mdf(tmp_path / "a.mf4", [linear, rational]))

    assert (file.channels, file.units, file.sample_rate) == (("ax", "n"), ("g", None), 1000)
    np.testing.assert_array_equal(file.signal(), np.stack([0.5 * raw + 3, (2 * raw + 1) / 4]).astype(np.float32))


def test_groups_of_mdf4_must_be_chosen_from(tmp_path: Path) -> None:
    fast, slow = Signal(TIME, TIME, name="fast"), Signal(TIME, 10 * TIME, name="slow")
    path = mdf(tmp_path / "a.mf4", [fast], [slow])

    with pytest.raises(DataError, match=r"several groups of channels: '.*' \(1 channels of 500 samples\)"):
        open_signal(path)
    assert open_signal(path, array="group 2").channels == ("slow",)
    assert open_signal(path, array="group 2").sample_rate == 100


def unpacked(channel: _Channel, records: np.ndarray[Any, np.dtype[np.uint8]]) -> list[float]:
    """Unpack bit by bit, the literal slow way."""
    found = []
    for record in records.tolist():
        cells = record[channel.first_byte : channel.first_byte + channel.width]
        whole = int.from_bytes(bytes(cells), "big" if channel.order == ">" else "little")
        number = whole >> channel.bit_offset & (1 << channel.bits) - 1
        found.append(
            float(number - (1 << channel.bits) if channel.kind == "i" and number >> channel.bits - 1 else number)
        )
    return found


@pytest.mark.parametrize("kind", ["u", "i"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("bit_offset", "bits"), [(0, 8), (3, 5), (0, 12), (4, 12), (7, 33), (0, 64), (1, 1)])
def test_packed_bits_of_mdf4(kind: str, order: str, bit_offset: int, bits: int) -> None:
    records = np.random.default_rng(0).integers(0, 256, (50, 11)).astype(np.uint8)
    channel = _Channel("x", None, False, 2, bit_offset, bits, kind, order, None, (0.0, 1.0, 0.0, 0.0, 0.0, 1.0))

    assert channel.values(records, 11, 0).tolist() == unpacked(channel, records)


def test_an_unfinished_mdf4_is_refused(tmp_path: Path) -> None:
    write_mdf4(example(), tmp_path / "a.mf4")
    raw = (tmp_path / "a.mf4").read_bytes()
    (tmp_path / "a.mf4").write_bytes(b"UnFinMF " + raw[8:])

    with pytest.raises(DataError, match="was never completed by its writer; finalise it"):
        open_signal(tmp_path / "a.mf4")


@pytest.mark.parametrize(
    ("subtype", "bits"), [("PCM_U8", 8), ("PCM_16", 16), ("PCM_24", 24), ("PCM_32", 32), ("DOUBLE", 64)]
)
@pytest.mark.parametrize("container", ["WAV", "WAVEX", "RF64"])
def test_every_kind_of_wav(tmp_path: Path, subtype: str, bits: int, container: str) -> None:
    path = tmp_path / "a.wav"
    wave = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    soundfile.write(path, wave, 12_800, subtype=subtype, format=container)

    file = open_signal(path)

    assert (file.sample_rate, file.samples, file.named) == (12_800, 400, False)
    assert file.notes[0].startswith(f"{bits}-bit")
    np.testing.assert_allclose(file.signal().T, soundfile.read(path)[0], atol=1e-7)


def test_an_interrupted_wav_is_refused(tmp_path: Path) -> None:
    write_wav(example(), tmp_path / "a.wav")
    raw = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "a.wav").write_bytes(raw[:4] + b"\xff" * 4 + raw[8:40] + b"\xff" * 4 + raw[44:])

    with pytest.raises(DataError, match="the size of its samples was never written"):
        open_signal(tmp_path / "a.wav")


def test_the_checksum_of_flac_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    write_flac(example(), path)
    raw = bytearray(path.read_bytes())
    raw[30] ^= 1
    path.write_bytes(raw)

    with pytest.raises(DataError, match="the checksum of its samples differs"):
        open_signal(path)


def test_groups_of_tdms_must_be_chosen_from(tmp_path: Path) -> None:
    path = tmp_path / "a.tdms"
    with TdmsWriter(path) as writer:
        writer.write_segment([
            ChannelObject("fast", "ax", np.ones(100), {"wf_increment": 1e-4, "unit_string": "g"}),
            ChannelObject("slow", "time", np.arange(10) * 0.001, {"unit_string": "s"}),
            ChannelObject("slow", "T", np.ones(10), {"unit_string": "°C"}),
            ChannelObject("mixed", "a", np.ones(10)),
            ChannelObject("mixed", "b", np.ones(11)),
        ])  # fmt: skip

    with pytest.raises(DataError, match=r"'fast' \(1 channels of 100 samples at 10000 Hz\), .*'slow' .*name one"):
        open_signal(path)
    assert (open_signal(path, array="slow").channels, open_signal(path, array="slow").sample_rate) == (("T",), 1000)
    with pytest.raises(DataError, match="group 'mixed' has channels of different lengths: a \\(10\\), b \\(11\\)"):
        open_signal(path, array="mixed")


def test_an_interrupted_tdms_is_refused(tmp_path: Path) -> None:
    write_tdms(example(), tmp_path / "a.tdms")
    raw = bytearray((tmp_path / "a.tdms").read_bytes())
    raw[12:20] = b"\xff" * 8
    (tmp_path / "a.tdms").write_bytes(raw)

    with pytest.raises(DataError, match="the segment at byte 0 was never completed"):
        open_signal(tmp_path / "a.tdms")


def test_a_tdms_about_which_the_library_only_warns_is_refused(tmp_path: Path) -> None:
    write_tdms(example(), tmp_path / "a.tdms")
    raw = (tmp_path / "a.tdms").read_bytes()
    (tmp_path / "a.tdms").write_bytes(raw.replace(b"'current'", b"'curren\xff'"))

    with pytest.raises(DataError, match="Error decoding string"):
        open_signal(tmp_path / "a.tdms")


def test_values_of_big_endian_uff58b(tmp_path: Path) -> None:
    write_uff58b(example(6), tmp_path / "a.uff")
    raw = (tmp_path / "a.uff").read_bytes()
    for row in example(6).signal:
        raw = raw.replace(row.astype("<f4").tobytes(), row.astype(">f4").tobytes())
    (tmp_path / "a.uff").write_bytes(raw.replace(b"b     1     2", b"b     2     2"))

    np.testing.assert_array_equal(open_signal(tmp_path / "a.uff").signal(), example(6).signal)


def test_other_data_sets_of_uff_are_noted(tmp_path: Path) -> None:
    write_uff58b(example(), tmp_path / "a.uff")
    other = b"    -1\n   151\nmodel\n    -1\n"
    (tmp_path / "a.uff").write_bytes(other + (tmp_path / "a.uff").read_bytes())

    assert open_signal(tmp_path / "a.uff").notes == ("data set of type 151 is not used",)


@pytest.mark.parametrize(
    ("suffix", "head", "package"), [(".flac", b"fLaC" + bytes(60), "soundfile"), (".tdms", b"TDSm", "npTDMS")]
)
def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, head: bytes, package: str
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(head)
    monkeypatch.setitem(sys.modules, package.lower(), None)

    with pytest.raises(DataError, match=rf"needs {package}; install it with: pip install 'cgsa\[formats\]'"):
        open_signal(path)


def test_a_file_that_ends_the_helper_is_refused(tmp_path: Path) -> None:
    helper = Hdf5Helper([sys.executable, "-c", "input()"])

    with pytest.raises(DataError, match="the HDF5 library cannot read it and does not return"):
        helper.contents(tmp_path / "a.h5")


def test_a_heap_that_does_not_end_is_located(tmp_path: Path) -> None:
    write_hdf5(example(), tmp_path / "a.h5")
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    begin = raw.index(b"GCOL")
    raw[begin + 16 : begin + 40] = bytes(24)
    (tmp_path / "a.h5").write_bytes(raw)

    with pytest.raises(DataError, match=f"the heap of texts at byte {begin} is damaged at byte {begin + 16}"):
        open_signal(tmp_path / "a.h5")


def test_a_helper_that_ended_is_replaced(tmp_path: Path) -> None:
    write_hdf5(example(), tmp_path / "a.h5")
    helper = Hdf5Helper()
    for _ in range(2):
        assert helper.contents(tmp_path / "a.h5")["arrays"] == {"run/signals": [[3000, 3], "<f4"]}
        assert helper._process
        helper._process.kill()
        helper._process.wait()
    helper._end()


def test_sizes_are_compared_with_the_file_before_memory_is_allocated(tmp_path: Path) -> None:
    form = struct.pack("<HHIIHH", 1, 1, 1000, 2000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 0x7FFF_0000)
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", 36) + body)
    np.save(tmp_path / "a.npy", np.ones((50, 2)))
    raw = (tmp_path / "a.npy").read_bytes().replace(b"(50, 2), }", b"(5000000000, 2), }"[:18])
    (tmp_path / "a.npy").write_bytes(raw)

    for name in ("a.wav", "a.npy"):
        with pytest.raises(DataError, match=r"truncated|cannot read it as NPY"):
            open_signal(tmp_path / name)
