"""The program that sends samples: what it reads, and that its blocks are those of the service."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.live.intake.block import Block
from cgsa.service.sender import send


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two channels."""
    for name, value in {"MACHINE": "p", "SAMPLE_RATE": 10.0, "CHANNELS": ["x", "y"], "UNITS": {"x": "g"}}.items():
        monkeypatch.setattr(send, name, value)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Zeit;y;x\ns;V;m/s2\n0,0;2,5;1\n0,1;4;3,0", {"x": "m/s2"}),
        ("y [V],x [g],other\n2.5,1,9\n4,3,9", {"x": "g"}),
        ("1\t2.5\n3\t4\n", {}),
        ("\ufeff1 2.5\n\n3 4\n", {}),
        ("time,acc 1,acc 2\n0,1,2.5\n1,3,4\n", {}),
    ],
)
def test_rows_of_csv_are_those_of_the_channels(text: str, units: dict[str, str]) -> None:
    rows = send.CsvRows(text.splitlines(), "f.csv")
    assert list(rows) == [[1.0, 2.5], [3.0, 4.0]]
    assert rows.units == units


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b;c\n1;2;3", "a, b, c; expected the channels x, y"),
        ("x;y\n1;2\n3;oops", "f.csv, line 3: '3;oops'; expected 2 numbers"),
        ("x;y\n", "no numbers; expected one column per channel"),
        ("t;x;y\n" + "\n".join(f"{n / 50};1;2" for n in range(100)), "50 Hz by its time column; expected 10 Hz"),
    ],
)
def test_csv_of_another_machine_is_refused(text: str, message: str) -> None:
    with pytest.raises(send.SendError, match=message):
        list(send.CsvRows(text.splitlines(), "f.csv"))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["f4", "f8", "i2"])
@pytest.mark.parametrize("turned", [False, True])
def test_npy_files_of_any_order_are_read(tmp_path: Path, order: str, kind: str, *, turned: bool) -> None:
    values = np.arange(10).reshape(5, 2).astype(kind)
    stored = values.T if turned else values
    np.save(tmp_path / "a.npy", np.asfortranarray(stored) if order == "F" else np.ascontiguousarray(stored))
    assert list(send.NpyRows(str(tmp_path / "a.npy"))) == values.tolist()


def test_a_damaged_npy_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((5, 2)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(send.SendError, match="it may be cut off"):
        list(send.NpyRows(str(path)))
    np.save(path, np.zeros((5, 3)))
    with pytest.raises(send.SendError, match="expected 2 channels"):
        list(send.NpyRows(str(path)))


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=9))
def test_a_block_is_one_of_the_service(rows: list[tuple[float, float]]) -> None:
    settings = {"MACHINE": "p", "SAMPLE_RATE": 10.0, "CHANNELS": ["x", "y"], "UNITS": {"x": "g"}}
    assert {name: getattr(send, name) for name in settings} == settings
    block = Block.from_bytes(send.encode_block(3, 7.5, [list(row) for row in rows], {"y": "V"}, {"speed": 900.0}))
    assert (block.machine, block.sequence, block.time, block.sample_rate) == ("p", 3, 7.5, 10.0)
    assert (block.channels, block.units, block.conditions) == (("x", "y"), {"x": "g", "y": "V"}, {"speed": 900.0})
    np.testing.assert_array_equal(block.samples, np.array(rows, np.float32).T)


def test_rows_become_blocks() -> None:
    assert list(send.in_blocks([[1.0], [2.0], [3.0]], 2)) == [[[1.0], [2.0]], [[3.0]]]
