from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.importing.classes import ClassGlobs, PathGlob
from cgsa.errors import ConfigError


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*_K0*", "K001/N09_M07_F10_K001_1.mat", True),
        ("*_KI*", "K001/N09_M07_F10_K001_1.mat", False),
        ("normal/*", "set/normal/12.288.csv", True),
        ("normal/*", "abnormal/12.288.csv", False),
        ("97", "cwru/97.mat", True),
        ("97", "cwru/197.mat", False),
        ("N[0-9]*", "N504.mat", True),
        ("N[!0-9]*", "N504.mat", False),
        ("?-A-*", "H-A-1.mat", True),
        ("a.b", "axb", False),
        ("<97-100>", "100.mat", True),
        ("<97-100>", "101.mat", False),
        ("<97-100>", "1100.mat", False),
        ("x<8->.csv", "day/x012.csv", True),
        ("<-3>", "4.csv", False),
    ],
)
def test_patterns_of_paths(*, glob: str, path: str, fits: bool) -> None:
    assert PathGlob(glob).matches(PurePosixPath(path)) == fits


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_range_of_numbers(low: int, high: int, number: int) -> None:
    assert PathGlob(f"run<{low}-{high}>_*").matches(PurePosixPath(f"run{number}_a.csv")) == (low <= number <= high)


def test_the_first_class_that_fits_comes_first() -> None:
    globs = ClassGlobs.parse("healthy=97*, 98* ,worn=*")
    assert globs.classes_of(PurePosixPath("98.mat")) == ["healthy", "worn"]
    assert globs.classes_of(PurePosixPath("105.mat")) == ["worn"]


@pytest.mark.parametrize("text", ["", "a*", "healthy=", "=a*", "healthy=a*,,worn=b*"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected class=pattern"):
        ClassGlobs.parse(text)
