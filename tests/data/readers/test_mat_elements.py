from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import savemat

from cgsa.data.readers import open_signal
from cgsa.data.readers.mat_elements import check_elements
from cgsa.errors import DataError

SERIES = np.array([("a", np.arange(20.0)), ("b", np.ones(5))], [("Name", object), ("Data", object)])
NESTED: dict[str, Any] = {
    "run": {"Y": SERIES, "sr": 48828, "text": "bearing 3", "X": np.array([])},
    "cells": np.array(["x", np.arange(3)], object),
    "wave": np.arange(4) * 1j,
    "small": np.int8(3),
    "few": sparse.csc_matrix(np.eye(4)),
}


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    savemat(path, NESTED)
    return path


@pytest.mark.parametrize("compressed", [True, False])
def test_whole_files_pass(tmp_path: Path, *, compressed: bool) -> None:
    savemat(tmp_path / "a.mat", NESTED, do_compression=compressed)
    check_elements(tmp_path / "a.mat")


@pytest.mark.parametrize(
    ("name", "place", "value", "problem"),
    [
        # Counted from the tag of the variable.
        ("x", 4, 255, "truncated"),
        ("x", 16, 5, "contradicts itself"),
        ("x", 16, 99, "contradicts itself"),
        ("x", 32, 9, "contradicts itself"),
        ("x", 48, 10, "contradicts itself"),
    ],
)
def test_a_variable_that_contradicts_itself_is_refused(
    tmp_path: Path, name: str, place: int, value: int, problem: str
) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {name: np.arange(20.0)})
    content = bytearray(path.read_bytes())
    content[128 + place] = value
    path.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        check_elements(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, nested: Path, data: st.DataObject) -> None:
    """Anything else, such as the end of this process, is a fault."""
    content = bytearray(nested.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(128, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "b.mat"
    path.write_bytes(content)
    with suppress(DataError):
        assert open_signal(path).samples > 0
