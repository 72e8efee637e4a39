from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.readers.own_names import find_name, shared_names


@pytest.mark.parametrize(
    ("names", "stem", "shared"),
    [
        (["X097_DE_time", "X097_FE_time", "X097RPM"], "Normal_0", ["DE_time", "FE_time", "RPM"]),
        # A copy of the arrays of another file keeps their names.
        (["X098_DE_time", "X099_DE_time"], "99", ["X098_DE_time", "DE_time"]),
        (["x_run7", "y_run7"], "run7", ["x", "y"]),
        (["H_A_1_x", "H_A_1_y"], "H-A-1", ["x", "y"]),
        (["H_A_1"], "H-A-1", ["signal"]),
        # Numbers of sensors, and names that would become one.
        (["acc1_x", "acc2_x"], "monday", ["acc1_x", "acc2_x"]),
        (["x1_a", "x1 a"], "monday", ["x1_a", "x1 a"]),
        (["vibration_1", "phase_current_1"], "N09", ["vibration_1", "phase_current_1"]),
        (["ax", "b"], "a", ["ax", "b"]),
    ],
)
def test_names_without_what_tells_their_file(names: list[str], stem: str, shared: list[str]) -> None:
    found = shared_names(names, stem)
    assert [found.get(name, name) for name in names] == shared


name = st.from_regex(r"[A-Za-z]{0,2}[0-9]{0,2}_?[a-z]{1,4}", fullmatch=True)


@given(st.lists(name, min_size=1, max_size=4, unique=True), name)
def test_names_stay_different(names: list[str], stem: str) -> None:
    found = shared_names(names, stem)
    assert len({found.get(one, one) for one in names}) == len(names)
    for one in names:
        assert find_name(one, names, stem) == one
    for one, short in found.items():
        assert short in names or find_name(short, names, stem) == one
