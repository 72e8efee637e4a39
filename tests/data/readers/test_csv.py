from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cgsa.data.mcc5.recordings import GEARBOX_COLUMNS, MOTOR_COLUMNS
from cgsa.data.readers import read_recording
from cgsa.errors import DataError

ROWS = 3000
RATE = 12_800
GEARBOX_NAME = "gear_wear_H_torque_circulation_1000rpm_20Nm.csv"
MOTOR_NAME = "bearing_ball_L_torque_circulation_20Nm_2000rpm_230412101530.csv"
DoubleArray = npt.NDArray[np.float64]


def raw_columns(count: int = 8, rows: int = ROWS) -> list[DoubleArray]:
    rng = np.random.default_rng(0)
    turns = np.arange(rows) * 3000 / 60 / RATE - 0.5
    key_phase = np.where(turns % 1 < 0.11, 3.8, 0.0)
    return [key_phase, rng.normal(3.4, 0.01, rows), *np.round(rng.normal(0, 1, (count - 2, rows)), 5)]


def lines(columns: Sequence[DoubleArray], header: Sequence[str] | None = None) -> list[str]:
    """Return the lines of a CSV file, without line ends."""
    body = [",".join(map(repr, row)) for row in np.column_stack(columns).tolist()]
    return ([",".join(header)] if header else []) + body


@pytest.fixture
def gearbox_lines() -> list[str]:
    return lines(raw_columns(), GEARBOX_COLUMNS)


def refuse(path: Path, text: str | bytes, *parts: str) -> None:
    """Write a file and check that reading it raises an error with its name and ``parts``."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError) as error:
        read_recording(path)
    for part in (str(path), *parts):
        assert part in str(error.value)


def test_gearbox(tmp_path: Path, gearbox_lines: list[str]) -> None:
    path = tmp_path / GEARBOX_NAME
    path.write_text("\n".join(gearbox_lines) + "\n")

    recording = read_recording(path)

    raw = raw_columns()
    assert recording.label == "gear_wear"
    assert recording.source == str(path)
    assert recording.signal.flags.c_contiguous
    np.testing.assert_array_equal(recording.signal, np.array([raw[0], *raw[2:]], np.float32))
    np.testing.assert_array_equal(recording.conditions["torque"], (6 * raw[1]).astype(np.float32))
    np.testing.assert_allclose(recording.conditions["speed"], 3000, rtol=0.005)


@pytest.mark.parametrize("variant", ["crlf", "bom", "quoted", "capitals", "other order", "time column", "no suffix"])
def test_gearbox_variants_are_read_the_same(tmp_path: Path, gearbox_lines: list[str], variant: str) -> None:
    plain = tmp_path / GEARBOX_NAME
    plain.write_text("\n".join(gearbox_lines) + "\n")
    header, *body = gearbox_lines
    raw = raw_columns()
    variants = {
        "crlf": "\r\n".join(gearbox_lines) + "\r\n",
        "bom": "\ufeff" + "\n".join(gearbox_lines) + "\n",
        "quoted": "\n".join([",".join(f'"{name}"' for name in GEARBOX_COLUMNS), *body]) + "\n",
        "capitals": "\n".join([header.title(), *body]) + "\n",
        "other order": "\n".join(lines(raw[::-1], GEARBOX_COLUMNS[::-1])) + "\n",
        "time column": "\n".join(lines([np.arange(ROWS) / RATE, *raw], ["time", *GEARBOX_COLUMNS])) + "\n",
        "no suffix": "\n".join(gearbox_lines) + "\n",
    }
    other = tmp_path / ("plain" if variant == "no suffix" else f"{variant}.csv")
    other.write_bytes(variants[variant].encode())

    recording, expected = read_recording(other), read_recording(plain)

    np.testing.assert_array_equal(recording.signal, expected.signal)
    np.testing.assert_array_equal(recording.conditions["torque"], expected.conditions["torque"])


@pytest.mark.parametrize("layout", ["header", "header and time", "time first", "early"])
def test_motor_layouts(tmp_path: Path, layout: str) -> None:
    raw = raw_columns()
    time = np.arange(ROWS) / RATE
    text = {
        "header": lines(raw, MOTOR_COLUMNS),
        "header and time": lines([time, *raw], ["time", "speed", *MOTOR_COLUMNS[1:]]),
        "time first": lines([time, *raw]),
        "early": [f"{line}," for line in lines([time % 0.128, raw[0], *raw[2:]])],
    }[layout]
    path = tmp_path / MOTOR_NAME
    path.write_text("\n".join(text) + "\n")

    recording = read_recording(path)

    assert recording.label == "bearing_ball"
    np.testing.assert_allclose(recording.signal[1:], 0.1 * np.array(raw[2:]), rtol=1e-6)
    np.testing.assert_array_equal(recording.signal[0], raw[0].astype(np.float32))
    assert ("torque" in recording.conditions) == (layout != "early")
    assert any("no torque" in note for note in recording.notes) == (layout == "early")


def test_early_motor_release_may_have_literal_nan(tmp_path: Path) -> None:
    raw = raw_columns()
    path = tmp_path / MOTOR_NAME
    columns = [np.arange(ROWS) / RATE, raw[0], *raw[2:], np.full(ROWS, np.nan)]
    path.write_text("\n".join(lines(columns)).replace("nan", "NaN") + "\n")

    assert "last column holds only NaN; dropped" in read_recording(path).notes


def test_columns_beyond_those_of_the_gearbox_are_noted(tmp_path: Path) -> None:
    path = tmp_path / GEARBOX_NAME
    header = ["index", *GEARBOX_COLUMNS]
    path.write_text("\n".join(lines([np.linspace(1, ROWS, ROWS), *raw_columns()], header)) + "\n")

    assert read_recording(path).notes == ("column 'index' is not used",)


def test_missing_column_is_named(tmp_path: Path) -> None:
    raw = raw_columns()
    text = "\n".join(lines([raw[0], *raw[2:]], [GEARBOX_COLUMNS[0], *GEARBOX_COLUMNS[2:]])) + "\n"

    refuse(tmp_path / GEARBOX_NAME, text, "no column 'torque'", "found speed, motor_vibration_x", "expected speed")


def test_renamed_column_is_suggested(tmp_path: Path, gearbox_lines: list[str]) -> None:
    gearbox_lines[0] = gearbox_lines[0].replace("gearbox_vibration_z", "gearbox_vibr_z")

    refuse(
        tmp_path / GEARBOX_NAME,
        "\n".join(gearbox_lines) + "\n",
        "no column 'gearbox_vibration_z'",
        "'gearbox_vibr_z' instead of 'gearbox_vibration_z'",
    )


def test_repeated_header_is_named(tmp_path: Path, gearbox_lines: list[str]) -> None:
    gearbox_lines[0] = gearbox_lines[0].replace("torque", "speed")

    refuse(tmp_path / GEARBOX_NAME, "\n".join(gearbox_lines) + "\n", "the header repeats 'speed'")


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([*MOTOR_COLUMNS[:5], *MOTOR_COLUMNS[6:]], "no column 'current_a'"),
        ([MOTOR_COLUMNS[0], *MOTOR_COLUMNS[:0:-1]], "expected the order key_phase, torque"),
    ],
)
def test_motor_header_must_fit(tmp_path: Path, names: list[str], part: str) -> None:
    refuse(tmp_path / MOTOR_NAME, "\n".join(lines(raw_columns(len(names)), names)) + "\n", part)


@pytest.mark.parametrize(("cells", "count"), [(["", "NaN"], 2), (["inf"], 1), (["nan", "nan", "-inf"], 3)])
def test_cells_without_a_finite_number_are_counted_and_located(
    tmp_path: Path, gearbox_lines: list[str], cells: list[str], count: int
) -> None:
    for place, cell in enumerate(cells):
        row = gearbox_lines[700 + place].split(",")
        gearbox_lines[700 + place] = ",".join([row[0], cell, *row[2:]])

    refuse(
        tmp_path / GEARBOX_NAME,
        "\n".join(gearbox_lines) + "\n",
        f"column 'torque' has {count} NaN or infinite values, first at row 700 (line 701)",
    )


def test_numbers_beyond_single_precision_are_located(tmp_path: Path, gearbox_lines: list[str]) -> None:
    row = gearbox_lines[700].split(",")
    gearbox_lines[700] = ",".join([row[0], "1e300", *row[2:]])

    text = "\n".join(gearbox_lines) + "\n"
    refuse(tmp_path / GEARBOX_NAME, text, "column 'torque' has 1 NaN or infinite values, first at row 699")


def test_nan_in_part_of_the_last_motor_column_is_refused(tmp_path: Path) -> None:
    raw = [np.arange(ROWS) / RATE, *raw_columns()]
    raw[8][5:] = np.nan

    refuse(
        tmp_path / MOTOR_NAME,
        "\n".join(lines(raw)) + "\n",
        "column 'column 9' has 2995 NaN or infinite values, first at row 6 (line 6)",
    )


def test_text_in_a_cell_is_quoted_and_located(tmp_path: Path, gearbox_lines: list[str]) -> None:
    row = gearbox_lines[900].split(",")
    gearbox_lines[900] = ",".join([*row[:3], "1.2.3", *row[4:]])

    refuse(
        tmp_path / GEARBOX_NAME,
        "\n".join(gearbox_lines) + "\n",
        "column 'motor_vibration_y' has '1.2.3' in row 900 (line 901); expected a number",
    )


def test_short_row_in_the_middle_is_located(tmp_path: Path, gearbox_lines: list[str]) -> None:
    gearbox_lines[1500] = "1,2,3"

    text = "\n".join(gearbox_lines) + "\n"
    refuse(tmp_path / GEARBOX_NAME, text, "row 1500 (line 1501) has 3 columns; expected 8")


def test_short_last_row_means_truncated(tmp_path: Path, gearbox_lines: list[str]) -> None:
    gearbox_lines[-1] = "1,2,3"

    refuse(
        tmp_path / GEARBOX_NAME,
        "\n".join(gearbox_lines) + "\n",
        "row 3000 (line 3001) has 3 columns; expected 8; it is the last row, so the file seems to be truncated",
    )


@pytest.mark.parametrize(("keep", "column"), [(1, 1), (5, 5), (8, 8)])
def test_file_that_ends_within_a_row_is_truncated(
    tmp_path: Path, gearbox_lines: list[str], keep: int, column: int
) -> None:
    gearbox_lines[-1] = ",".join(gearbox_lines[-1].split(",")[:keep])[:-1]

    refuse(
        tmp_path / GEARBOX_NAME,
        "\n".join(gearbox_lines),
        f"the file is truncated in row 3000 (line 3001), in column {column} of 8",
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_header_only(tmp_path: Path, gearbox_lines: list[str], end: str) -> None:
    refuse(tmp_path / GEARBOX_NAME, gearbox_lines[0] + end, "0 rows of data; expected at least 1024")


def test_too_short(tmp_path: Path, gearbox_lines: list[str]) -> None:
    text = "\n".join(gearbox_lines[:1024]) + "\n"

    refuse(tmp_path / GEARBOX_NAME, text, "1023 rows of data; expected at least 1024")


@pytest.mark.parametrize("machine", ["gearbox", "motor"])
def test_wrong_rate(tmp_path: Path, machine: str) -> None:
    columns = [np.arange(ROWS) / 25_600, *raw_columns()]
    header = ["time", *GEARBOX_COLUMNS] if machine == "gearbox" else None

    text = "\n".join(lines(columns, header)) + "\n"
    name = "any.csv" if machine == "gearbox" else MOTOR_NAME
    refuse(tmp_path / name, text, "time column steps at 25600 Hz; MCC5-THU files have 12800 Hz")


def test_gearbox_time_column_must_be_a_clock(tmp_path: Path) -> None:
    columns = [np.zeros(ROWS), *raw_columns()]

    text = "\n".join(lines(columns, ["time", *GEARBOX_COLUMNS])) + "\n"
    refuse(tmp_path / "any.csv", text, "time column is not a clock")


def test_eight_columns_without_header_could_be_either_machine(tmp_path: Path) -> None:
    refuse(tmp_path / MOTOR_NAME, "\n".join(lines(raw_columns())) + "\n", "add the header", ",".join(MOTOR_COLUMNS))


def test_headerless_column_count(tmp_path: Path) -> None:
    text = "\n".join(lines(raw_columns(4))) + "\n"

    refuse(tmp_path / MOTOR_NAME, text, "4 columns without a header; a motor file has 9: time, key_phase")


def test_error_for_another_csv_says_what_is_needed(tmp_path: Path) -> None:
    text = "\n".join(lines(raw_columns(3), ["x", "y", "z"])) + "\n"

    refuse(tmp_path / "phone.csv", text, "states no sample rate; pass sample_rate=")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is empty (0 bytes)"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "named as csv, but its content is not"),
        (b"\xff\xfe\x01\x02" * 100, "named as csv, but its content is not"),
    ],
)
def test_content_that_is_not_csv(tmp_path: Path, content: bytes, part: str) -> None:
    refuse(tmp_path / GEARBOX_NAME, content, part)
