"""CSV files of any layout; those of MCC5-THU have tests of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.data.readers import SignalFile, open_signal, read_recording
from cgsa.errors import DataError

ROWS = 300
RATE = 12_800
SIGNAL = np.round(np.random.default_rng(0).normal(size=(2, ROWS)), 6)
TIME = np.arange(ROWS) / RATE


def table(
    delimiter: str = ",", decimal: str = ".", *, head: Sequence[str] = (), columns: Iterable[Iterable[float]] = ()
) -> str:
    chosen = list(columns) or [TIME, *SIGNAL]
    rows = [delimiter.join(f"{value:.9f}" for value in row).replace(".", decimal) for row in zip(*chosen, strict=True)]
    return "\n".join([*head, *rows]) + "\n"


def opened(tmp_path: Path, text: str, encoding: str = "utf-8") -> SignalFile:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    return open_signal(path)


LAYOUTS = {
    "comma": (table(head=["time,ax,ay"]), "utf-8"),
    "semicolon, decimal comma, units row": (table(";", ",", head=["Zeit;ax;ay", "s;g;m/s²"]), "utf-8"),
    "byte order mark": (table(head=["t,ax,ay"]), "utf-8-sig"),
    "utf-16": (table("\t", ",", head=["time\tax\tay", "[s]\t[g]\t[m/s²]"]), "utf-16"),
    "utf-16 without mark": (table(";", head=["time;ax;ay"]), "utf-16-le"),
    "latin-1": (table(";", ",", head=["time;ax (m/s²);ay (°C)"]), "latin-1"),
    "units in the header": (table(head=["Time [s],ax [g],ay (m/s^2)"]), "utf-8"),
    "milliseconds": (table(head=["time_ms,ax,ay"], columns=[1000 * TIME, *SIGNAL]), "utf-8"),
    "lines above": (table(head=["Logger 7", "", "serial;12", "time,ax,ay"]), "utf-8"),
    "comments": (table("\t", head=["# logger", "# time\tax\tay"]), "utf-8"),
    "spaces": (table("   ", head=["  time  ax   ay"]), "utf-8"),
    "quoted": (table(head=['"time","ax","ay"']), "utf-8"),
    "crlf, empty lines at the end": ((table(head=["time,ax,ay"]) + "\n\n").replace("\n", "\r\n"), "utf-8"),
    "empty last column": (table(";", head=["time;ax;ay;"]).replace("\n", ";\n").replace(";;\n", ";\n"), "utf-8"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(tmp_path: Path, name: str) -> None:
    file = opened(tmp_path, *LAYOUTS[name])

    assert file.channels == ("ax", "ay")
    assert file.sample_rate == RATE
    np.testing.assert_array_equal(file.signal(), SIGNAL.astype(np.float32))


def test_units_are_spelt_as_in_the_table(tmp_path: Path) -> None:
    assert opened(tmp_path, *LAYOUTS["semicolon, decimal comma, units row"]).units == ("g", "m/s^2")
    assert opened(tmp_path, *LAYOUTS["utf-16"]).units == ("g", "m/s^2")
    assert opened(tmp_path, *LAYOUTS["latin-1"]).units == ("m/s^2", "degC")
    assert opened(tmp_path, *LAYOUTS["comma"]).units == (None, None)


def test_notes_say_how_it_was_read(tmp_path: Path) -> None:
    notes = opened(tmp_path, *LAYOUTS["semicolon, decimal comma, units row"]).notes

    expected = {
        "delimiter semicolon",
        "units in line 2",
        "decimal comma",
        "sample rate 12800 Hz from time column 'Zeit'",
    }
    assert expected <= set(notes)


@pytest.mark.parametrize(
    "stamp",
    ["2026-11-18T23:59:59.{:06d}", "2026-11-18 23:59:59,{:06d}", "2026-11-18T23:59:59.{:06d}Z", "23:59:59.{:06d}"],
)
def test_time_stamps(tmp_path: Path, stamp: str) -> None:
    lines = [f"{stamp.format(place * 100)};{value:.3f}" for place, value in enumerate(SIGNAL[0])]

    file = opened(tmp_path, "\n".join(["stamp;ax", *lines]) + "\n")

    assert (file.channels, file.sample_rate) == (("ax",), 10_000.0)


def test_a_file_without_a_header_has_no_names(tmp_path: Path) -> None:
    file = opened(tmp_path, table())

    assert (file.channels, file.named, file.sample_rate) == (("column 2", "column 3"), False, RATE)


@pytest.mark.parametrize(
    ("head", "rate"), [("# Sample rate: 12,8 kHz", 12_800), ("Sampling frequency;25600 Hz", 25_600)]
)
def test_lines_above_may_state_the_rate(tmp_path: Path, head: str, rate: float) -> None:
    assert opened(tmp_path, table(";", head=[head, "ax;ay"], columns=SIGNAL.tolist())).sample_rate == rate


def test_a_clock_that_contradicts_the_stated_rate_leaves_none(tmp_path: Path) -> None:
    file = opened(tmp_path, table(";", head=["# fs = 5000 Hz", "time;ax;ay"]))

    assert file.sample_rate is None
    assert "the lines above the data state 5000 Hz, the clock 12800 Hz: pass the right one" in file.notes


def test_a_slow_time_column_without_a_unit_tells_no_rate(tmp_path: Path) -> None:
    file = opened(tmp_path, table(head=["t,ax,ay"], columns=[1000 * TIME, *SIGNAL]))

    assert file.sample_rate is None
    assert any("12.8 Hz in s, 12800 Hz in ms" in note for note in file.notes)
    with pytest.raises(DataError, match=r"no sample rate; time column 't' states no unit: .* 12800 Hz in ms; pass"):
        read_recording(file.path)


def test_gaps_and_jitter_are_noted(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    time = TIME + rng.uniform(-0.1, 0.1, ROWS) / RATE
    time[200:] += 1.0

    file = opened(tmp_path, table(head=["time,ax,ay"], columns=[time, *SIGNAL]))

    assert file.sample_rate == pytest.approx(RATE, rel=1e-3)
    assert any("jitters" in note for note in file.notes)
    assert "the clock jumps ahead once, at row 201; samples are taken to be consecutive" in file.notes


def test_columns_that_are_no_channels_are_noted(tmp_path: Path) -> None:
    lines = [f"{place};{value:.3f};ok;" for place, value in enumerate(SIGNAL[0])]

    file = opened(tmp_path, "\n".join([";ax;state;spare", *lines]) + "\n")

    assert file.channels == ("ax",)
    assert "column 'state' has text and is not used" in file.notes
    assert "column 'column 1' numbers the rows and is not used" in file.notes


def damaged(line: int, text: str | None) -> str:
    lines = table(head=["time,ax,ay"]).split("\n")
    if text is not None:
        lines[line - 1] = text
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (damaged(200, "0.1,1.2.3,4"), r"column 'ax' has '1.2.3' in row 199 \(line 200\); expected a number"),
        (damaged(200, "0.1,4"), r"row 199 \(line 200\) has 2 columns; expected 3"),
        (damaged(200, "0.1,,4"), r"column 'ax' has 1 NaN or infinite values, first at row 198"),
        (damaged(2, "1.5x,2,3"), "line 2 mixes numbers such as '2' with text"),
        (damaged(1, None)[:-4], "may be truncated in its last line, in column 3 of 3"),
        (table(head=["ax,ay"], columns=SIGNAL.tolist()).replace(".", ","), "decimal signs as well as delimiters"),
        ("just\nsome\ntext\n", "no rows of numbers"),
        (table(head=["time,ax,ax"]), "the header repeats 'ax'"),
        (table(";", head=["time;ax;ax"]), "several channels are named 'ax'"),
    ],
)
def test_damage_is_located(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)

    with pytest.raises(DataError, match=message):
        read_recording(path, units="g")


def test_a_complete_last_line_needs_no_end(tmp_path: Path) -> None:
    file = opened(tmp_path, table(head=["time,ax,ay"])[:-1])

    assert file.samples == ROWS
    assert "the last line has no line end, but as many digits as the others" in file.notes


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", ","), ("\t", "."), (" ", "."), ("|", ".")]),
    st.integers(1, 5),
    st.sampled_from(["header", "none"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    dialect: tuple[str, str],
    count: int,
    top: str,
    encoding: str,
) -> None:
    values = np.random.default_rng(count).normal(size=(count, 50)).round(9)
    head = [dialect[0].join(f"c{place}" for place in range(count))] if top == "header" or count == 1 else []
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(table(*dialect, head=head, columns=values.tolist()).encode(encoding))

    np.testing.assert_array_equal(open_signal(path).signal(), values.astype(np.float32))


def test_a_file_is_read_in_bounded_blocks(tmp_path: Path) -> None:
    columns = np.random.default_rng(0).normal(size=(2, 100_000))
    file = opened(tmp_path, table(head=["ax,ay"], columns=columns.tolist()))

    blocks = list(file.blocks(10_000))

    assert len(blocks) >= 10
    np.testing.assert_allclose(np.concatenate(blocks, axis=1), columns, atol=1e-6)


def test_a_heading_above_the_data_is_no_header(tmp_path: Path) -> None:
    rows = "".join(f"{place / 7:.4f},{place / 3:.4f},{place % 5:.4f},\n" for place in range(40))
    (tmp_path / "a.csv").write_text(f"Title,pump 3,,\nData,,,\n{rows}")
    file = open_signal(tmp_path / "a.csv")
    assert (file.channels, file.named, file.samples) == (("column 1", "column 2", "column 3"), False, 40)
    assert "2 lines above the data are not used" in file.notes
