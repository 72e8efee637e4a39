from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.readers.start_time import recording_start
from cgsa.data.recording import Recording

BEGIN = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC."""


def csv(folder: Path, first: str, *others: str, head: str = "time;a") -> Path:
    path = folder / "one.csv"
    path.write_text("\n".join([head, f"{first};1.5", *(f"{other};2.5" for other in others)]) + "\n")
    return path


@pytest.mark.parametrize(
    "stamps",
    [
        ("2023-11-14 22:13:20.000", "2023-11-14 22:13:20.001", "2023-11-14 22:13:20.002"),
        ("2023-11-14T22:13:20,000000000", "2023-11-14T22:13:20,001000000", "2023-11-14T22:13:20,002000000"),
        ("2023-11-15T00:13:20.000+02:00", "2023-11-15T00:13:20.001+02:00", "2023-11-15T00:13:20.002+02:00"),
        ("1700000000.000", "1700000000.001", "1700000000.002"),
    ],
)
def test_time_stamps_and_seconds_since_1970_are_read(tmp_path: Path, stamps: tuple[str, ...]) -> None:
    assert recording_start(csv(tmp_path, *stamps), UTC) == pytest.approx(BEGIN)


def test_a_stamp_without_a_zone_is_in_the_given_one(tmp_path: Path) -> None:
    path = csv(tmp_path, "2023-11-14 23:13:20.000", "2023-11-14 23:13:20.001", "2023-11-14 23:13:20.002")
    assert recording_start(path, ZoneInfo("Europe/Berlin")) == pytest.approx(BEGIN)


@pytest.mark.parametrize("stamps", [("0.000", "0.001", "0.002"), ("22:13:20.000", "22:13:20.001", "22:13:20.002")])
def test_a_time_without_a_date_is_no_start(tmp_path: Path, stamps: tuple[str, ...]) -> None:
    assert recording_start(csv(tmp_path, *stamps), UTC) is None


def test_a_format_without_times_has_no_start(tmp_path: Path) -> None:
    signal = np.zeros((1, 10), np.float32)
    write_parquet(Recording(signal, 1000.0, ("a",), ("g",)), tmp_path / "one.parquet")
    assert recording_start(tmp_path / "one.parquet", UTC) is None


def test_mdf4_states_when_it_was_recorded(tmp_path: Path) -> None:
    asammdf = pytest.importorskip("asammdf")
    with asammdf.MDF(version="4.10") as file:
        file.append([asammdf.Signal(np.arange(10.0), np.arange(10) / 1000, name="a", unit="g")])
        file.header.start_time = datetime.fromtimestamp(BEGIN, UTC)
        file.save(tmp_path / "one.mf4")
    assert recording_start(tmp_path / "one.mf4", UTC) == pytest.approx(BEGIN)


def test_tdms_states_when_it_was_recorded(tmp_path: Path) -> None:
    nptdms = pytest.importorskip("nptdms")
    about = {"wf_increment": 0.001, "wf_start_time": np.datetime64(int(BEGIN), "s"), "unit_string": "g"}
    with nptdms.TdmsWriter(tmp_path / "one.tdms") as writer:
        writer.write_segment([nptdms.ChannelObject("group", "a", np.arange(10.0), properties=about)])
    assert recording_start(tmp_path / "one.tdms", UTC) == pytest.approx(BEGIN)
