from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cgsa.errors import ConfigError, DataError
from cgsa.ledger.columns import Column, Columns, LabelColumn, LedgerInfo
from cgsa.ledger.files import Ledger, LedgerWriter

ABOUT = LedgerInfo(method="cgsa", classes=("health", "wear"), seconds_per_window=0.1, settings={"tau": 0.05}, seed=7)


def rows(first: int, count: int, *, source: str = "here", learns: bool = True, **evidence: object) -> dict[str, Column]:
    rng = np.random.default_rng(first)
    made: dict[str, Column] = {
        "window": np.arange(first, first + count),
        "time": np.arange(first, first + count) * 0.1,
        "source": LabelColumn(np.zeros(count, np.int32), (source,)),
        "verdict": LabelColumn(rng.integers(0, 2, count).astype(np.int32), ABOUT.classes),
        "confidence": rng.random(count).astype(np.float32),
        "reason": LabelColumn(
            rng.integers(0, 3, count).astype(np.int32), ("learnt", "not confident", "residual deviates")
        ),
        "deviation": rng.random(count).astype(np.float32),
    }
    if learns:
        made["accepted"] = rng.random(count) < 0.5
    return made | {name: np.asarray(value, np.float32) for name, value in evidence.items()}


def values(columns: Columns, name: str) -> list[object]:
    column = columns[name]
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes]
    found: list[object] = column.tolist()
    return found


def joined(batches: list[Columns], name: str) -> list[object]:
    return [value for columns in batches for value in values(columns, name)]


def write(folder: Path, batches: list[Columns], rows_per_part: int = 100) -> Ledger:
    with LedgerWriter(folder, ABOUT, rows_per_part=rows_per_part) as writer:
        for columns in batches:
            writer.add(columns)
    return Ledger(folder)


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 60), max_size=8), rows_per_part=st.integers(1, 120), learns=st.booleans())
def test_what_was_added_is_read(*, sizes: list[int], rows_per_part: int, learns: bool) -> None:
    borders = np.cumsum([0, *sizes]).tolist()
    batches: list[Columns] = [
        rows(begin, size, source=f"file {number // 2}", learns=learns)
        for number, (begin, size) in enumerate(zip(borders, sizes, strict=False))
    ]
    with tempfile.TemporaryDirectory() as place:
        ledger = write(Path(place) / "ledger", batches, rows_per_part)
        read = list(ledger.batches())
        assert (len(ledger), ledger.count(), ledger.finished) == (sum(sizes), sum(sizes), True)
        assert ledger.about == ABOUT
        for name in batches[0] if batches else ():
            assert joined(read, name) == joined(batches, name), name
        assert learns or all("accepted" not in columns for columns in read)
        # All parts but those that the end of the stream or other columns cut short are full.
        parts = sorted(Path(place, "ledger").glob("part-*"))
        assert all(parquet.read_metadata(part).num_rows >= rows_per_part for part in parts[:-1])


def test_columns_are_small_and_typed(tmp_path: Path) -> None:
    ledger = write(tmp_path / "ledger", [rows(0, 5000)], 5000)
    words = pa.dictionary(pa.int32(), pa.string())
    kinds = [pa.int64(), pa.float64(), words, words, pa.float32(), pa.bool_(), words, pa.float32()]
    assert ledger.dataset.schema.types == kinds
    assert ledger.columns == (
        "window",
        "time",
        "source",
        "verdict",
        "confidence",
        "accepted",
        "reason",
        "deviation",
    )
    # Two columns of random float32 take 8 bytes a row, whatever is done.
    assert (tmp_path / "ledger" / "part-000000.parquet").stat().st_size < 16 * 5000


def test_a_stream_that_is_killed_leaves_its_complete_rows(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from tests.ledger.test_files import ABOUT, LedgerWriter, rows\n"
        f"with LedgerWriter(Path({str(tmp_path / 'ledger')!r}), ABOUT, rows_per_part=100) as writer:\n"
        "    for number in range(10):\n"
        "        writer.add(rows(40 * number, 40))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert done.returncode == -signal.SIGKILL
    ledger = Ledger(tmp_path / "ledger")
    assert not ledger.finished
    assert len(ledger) == 3 * 120  # three batches of 40 fill a file; the tenth batch was in memory alone
    assert joined(list(ledger.batches()), "window") == list(range(360))


def test_a_kill_while_a_file_is_written_costs_that_file_alone(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [rows(0, 100)])
    half = tmp_path / "ledger" / ".part-000001.parquet.abcd"
    half.mkdir()
    (half / "new").write_bytes(b"PAR1 half")
    assert len(Ledger(tmp_path / "ledger")) == 100


def test_an_error_keeps_what_was_added_and_says_that_there_is_more(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), LedgerWriter(tmp_path / "ledger", ABOUT) as writer:
        writer.add(rows(0, 30))
        raise KeyboardInterrupt
    ledger = Ledger(tmp_path / "ledger")
    assert (len(ledger), ledger.finished) == (30, False)


def test_a_stream_that_fails_before_its_first_window_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError), LedgerWriter(tmp_path / "ledger", ABOUT):
        raise DataError("no such recording")
    assert not (tmp_path / "ledger").exists()


def test_evidence_may_come_and_go(tmp_path: Path) -> None:
    ledger = write(tmp_path / "ledger", [rows(0, 3), rows(3, 2, entropy=[1, 2]), rows(5, 1)])
    table = ledger.dataset.to_table()
    assert table["entropy"].to_pylist() == [None, None, None, 1, 2, None]
    assert ledger.count("entropy > 1.5") == 1


def test_memory_holds_one_part(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path / "ledger", ABOUT, rows_per_part=100) as writer:
        for number in range(50):
            writer.add(rows(40 * number, 40))
            assert writer._rows_held < 100
    assert len(Ledger(tmp_path / "ledger")) == 2000


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return write(tmp_path_factory.mktemp("ledger") / "ledger", [rows(0, 250), rows(250, 250, source="there")])


@pytest.mark.parametrize(
    "where",
    [
        "deviation > 0.5",
        "deviation <= 0.25 and verdict == 'wear'",
        "accepted == true and reason != 'learnt'",
        "accepted == false and window >= 100 and window < 300 and source == 'there'",
        "time == 0.5",
        "verdict == 'nothing like it'",
    ],
)
def test_where_equals_a_loop(where: str, ledger: Ledger) -> None:
    everything = [values(columns, name) for columns in [_whole(ledger)] for name in ledger.columns]
    expected = [
        row[0]
        for row in zip(*everything, strict=True)
        if eval(where.replace("true", "True").replace("false", "False"), dict(zip(ledger.columns, row, strict=True)))  # noqa: S307 - a twin for what must not be done
    ]
    assert joined(list(ledger.batches(where)), "window") == expected
    assert ledger.count(where) == len(expected)


def _whole(ledger: Ledger) -> Columns:
    batches = list(ledger.batches())
    return {name: np.asarray(joined(batches, name)) for name in ledger.columns}


def test_a_number_is_rounded_as_its_column_was(tmp_path: Path) -> None:
    """Neither 0.1 nor 0.05 is a float32."""
    ledger = write(tmp_path / "ledger", [rows(0, 2, other=[0.1, 0.05])])
    assert [ledger.count(f"other {sign} 0.1") for sign in ("==", ">=", "<", ">")] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("deviaton > 1", "no column 'deviaton'; did you mean 'deviation'"),
        ("nonsense > 1", "no column 'nonsense'; it has window, time, source"),
        ("deviation == 'wear'", "'deviation' is compared with a number, not with 'wear'"),
        ("deviation == true", "'deviation' is compared with a number, not with True"),
        ("verdict == 1", "'verdict' is compared with a 'text', not with 1.0"),
        ("verdict > 'a'", "'verdict' has no order; expected == or != instead of >"),
        ("accepted == 1", "'accepted' is compared with true or false, not with 1.0"),
        ("accepted < true", "'accepted' has no order"),
        ("deviation >", "at 'deviation >' expected COLUMN"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(where: str, message: str, ledger: Ledger) -> None:
    for use in (ledger.count, lambda where: list(ledger.batches(where))):
        with pytest.raises(ConfigError, match=message):
            use(where)


def test_exports_hold_the_chosen_rows(ledger: Ledger, tmp_path: Path) -> None:
    where = "deviation > 0.5 and accepted == true"
    assert ledger.export(tmp_path / "a.csv", where) == ledger.count(where)
    with (tmp_path / "a.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == ledger.columns
    chosen = list(ledger.batches(where))
    assert [int(row["window"]) for row in table] == joined(chosen, "window")
    assert [row["verdict"] for row in table] == joined(chosen, "verdict")
    assert [np.float32(row["deviation"]) for row in table] == joined(chosen, "deviation")
    ledger.export(tmp_path / "a.parquet", where)
    assert parquet.read_table(tmp_path / "a.parquet")["reason"].to_pylist() == joined(chosen, "reason")
    with pytest.raises(ConfigError, match=r"exported as .csv or .parquet"):
        ledger.export(tmp_path / "a.xlsx")


def test_an_empty_stream_is_a_ledger_too(tmp_path: Path) -> None:
    ledger = write(tmp_path / "ledger", [])
    assert (len(ledger), ledger.finished, list(ledger.batches())) == (0, True, [])
    assert ledger.export(tmp_path / "a.csv") == 0


def test_a_ledger_is_never_written_over(tmp_path: Path) -> None:
    write(tmp_path / "ledger", [rows(0, 3)])
    with pytest.raises(DataError, match="holds a ledger already; choose another folder"):
        LedgerWriter(tmp_path / "ledger", ABOUT)
    with pytest.raises(DataError, match="is not empty; choose another folder"):
        LedgerWriter(tmp_path, ABOUT)
    with pytest.raises(DataError, match="is a file; a ledger is a folder"):
        LedgerWriter(tmp_path / "ledger" / "ledger.json", ABOUT)
    assert len(Ledger(tmp_path / "ledger")) == 3


def _without(part: str) -> object:
    return lambda folder: (folder / part).unlink()


def _manifest(**changes: object) -> object:
    def change(folder: Path) -> None:
        path = folder / "ledger.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("ledger.json"), "no ledger here"),
        (lambda folder: (folder / "ledger.json").write_text("{"), "not JSON"),
        (lambda folder: (folder / "ledger.json").write_text("{}"), "no cgsa-ledger manifest"),
        (_manifest(version=2), "ledger version 2; this cgsa reads version 1"),
        (_manifest(about=3), "'about' is no table"),
        (_manifest(about={"method": "cgsa"}), "classes: missing"),
    ],
)
def test_damage_is_named(damage: object, message: str, tmp_path: Path) -> None:
    assert callable(damage)
    write(tmp_path / "ledger", [rows(0, 100), rows(100, 100)])
    damage(tmp_path / "ledger")
    with pytest.raises(DataError, match=message):
        Ledger(tmp_path / "ledger")


def _overwritten(part: str) -> object:
    """Overwrite some values of a file, whose end is intact."""

    def change(folder: Path) -> None:
        path = folder / part
        data = bytearray(path.read_bytes())
        data[200:280] = b"\xa5" * 80
        path.write_bytes(data)

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("part-000000.parquet"), r"part-000000.parquet is missing: the windows before 10 s are lost"),
        (_without("part-000001.parquet"), "part-000001.parquet is missing: the windows after 9.9 s before 20 s are"),
        (_without("part-000002.parquet"), "100 of 300 windows: the last files are missing"),
        (
            lambda folder: (folder / "part-000001.parquet").write_bytes(b"PAR1 cut off"),
            r"part-000001.parquet cannot be read \(.*: the windows after 9.9 s before 20 s are lost",
        ),
        (
            lambda folder: parquet.write_table(pa.table({"window": ["a"]}), folder / "part-000001.parquet"),
            r"part-000001.parquet cannot be read \(.*: the windows after 9.9 s before 20 s are lost",
        ),
        (
            _overwritten("part-000001.parquet"),
            r"part-000001.parquet is damaged \(.*: some windows from 10 s to 19.9 s are lost",
        ),
    ],
)
def test_a_damaged_file_costs_its_windows_alone(damage: object, message: str, tmp_path: Path) -> None:
    assert callable(damage)
    write(tmp_path / "ledger", [rows(0, 100), rows(100, 100), rows(200, 100)])
    damage(tmp_path / "ledger")
    ledger = Ledger(tmp_path / "ledger")
    for _ in range(2):
        found = joined(list(ledger.batches()), "window")
    assert set(range(300)) > set(found)
    assert len(found) == 200
    assert ledger.finished
    (text,) = ledger.lost
    assert re.search(message, text)


def test_time_between_windows_is_positive() -> None:
    with pytest.raises(ConfigError, match="seconds_per_window 0; expected more than 0"):
        replace(ABOUT, seconds_per_window=0)
