from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.config import as_table, bind, one_as, overlay, parse_assignments, read_toml
from cgsa.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    size: int = 3
    ratio: float = 0.5

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ConfigError(f"size {self.size} is negative")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=Inner)
    mode: Literal["fast", "slow"] = "fast"
    widths: tuple[int, ...] = (1, 2)
    pair: tuple[float, float] | None = None
    deep: bool = False
    free: Mapping[str, object] = field(default_factory=dict)


def test_binds_every_kind_of_field() -> None:
    values = {
        "name": "x",
        "inner": {"size": 4, "ratio": 1},
        "mode": "slow",
        "widths": [5],
        "pair": [0, 1.5],
        "deep": True,
        "free": {"a": 1},
    }
    assert bind(Outer, values, "test") == Outer("x", Inner(4, 1.0), "slow", (5,), (0.0, 1.5), True, {"a": 1})


def test_as_table_is_the_inverse() -> None:
    settings = Outer("x", Inner(4, 1.0), "slow", (5,), (0.0, 1.5))
    assert bind(Outer, as_table(settings), "test") == settings


@dataclass(frozen=True)
class Several:
    inners: tuple[Inner, ...] = field(metadata=one_as("inner"))
    place: float | Mapping[str, float] | None = None


@given(
    st.builds(
        Several,
        st.lists(st.builds(Inner, st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
        st.none() | st.floats(0, 1) | st.dictionaries(st.text("ab"), st.floats(0, 1)),
    )
)
def test_one_of_several_stands_under_its_own_name(settings: Several) -> None:
    table = as_table(settings)
    assert ("inner" in table) == ("inners" not in table) == (len(settings.inners) == 1)
    assert bind(Several, table, "test") == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inner": {"size": "big"}}, "test: inner.size: expected a whole number, got 'big'"),
        ({"inners": [{}, {"size": -1}]}, "test: inners[1]: size -1 is negative"),
        ({"inner": {}, "inners": [{}]}, "test: inners: the same setting is given under two names; keep one of them"),
        ({}, "test: inner: missing"),
        ({"iner": {}}, "test: iner: no such setting; did you mean 'inner'?\ntest: inner: missing"),
        ({"inner": {}, "place": "far"}, "test: place: expected a number, got 'far'"),
        ({"inner": {}, "place": {"x": 1, "y": "far"}}, "test: place.y: expected a number, got 'far'"),
    ],
)
def test_what_is_wrong_with_one_or_several_is_named_as_it_was_written(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bind(Several, values, "test")
    assert str(caught.value) == message


@dataclass(frozen=True)
class OneOrList:
    lines: str | tuple[str, ...] = ()


def test_a_list_is_taken_by_the_kind_that_takes_lists() -> None:
    assert bind(OneOrList, {"lines": "a"}, "test").lines == "a"
    assert bind(OneOrList, {"lines": ["a", "b"]}, "test").lines == ("a", "b")
    with pytest.raises(ConfigError, match=r"lines\[1\]: expected a text, got 2"):
        bind(OneOrList, {"lines": ["a", 2]}, "test")


def test_every_problem_is_reported_at_once_with_its_full_name() -> None:
    values = {
        "inner": {"sise": 4, "ratio": "half"},
        "mode": "quick",
        "widths": [1, 2.5],
        "pair": [1],
        "deep": 1,
        "free": 3,
    }
    with pytest.raises(ConfigError) as caught:
        bind(Outer, values, "my.toml")
    lines = str(caught.value).splitlines()
    assert lines == [
        "my.toml: inner.sise: no such setting; did you mean 'size'?",
        "my.toml: inner.ratio: expected a number, got 'half'",
        "my.toml: mode: expected one of 'fast', 'slow', got 'quick'",
        "my.toml: widths[1]: expected a whole number, got 2.5",
        "my.toml: pair: expected 2 values, got [1]",
        "my.toml: deep: expected true or false, got 1",
        "my.toml: free: expected a table, got 3",
        "my.toml: name: missing",
    ]


def test_a_whole_number_is_not_true_or_false() -> None:
    with pytest.raises(ConfigError, match="expected a whole number, got True"):
        bind(Inner, {"size": True}, "test")


def test_a_dataclass_that_refuses_is_reported_with_its_place() -> None:
    with pytest.raises(ConfigError, match="test: inner: size -1 is negative"):
        bind(Outer, {"name": "x", "inner": {"size": -1}}, "test")


def test_a_table_is_expected_where_there_are_settings() -> None:
    with pytest.raises(ConfigError, match="inner: expected a table of settings, got 3"):
        bind(Outer, {"name": "x", "inner": 3}, "test")


def test_assignments_are_toml_or_bare_words() -> None:
    words = ["train.epochs=20", "train.lr=1e-3", "frontend=raw", 'title="a=b"', "widths=[1, 2]", "deep=true"]
    assert parse_assignments(words) == {
        "train": {"epochs": 20, "lr": 1e-3},
        "frontend": "raw",
        "title": "a=b",
        "widths": [1, 2],
        "deep": True,
    }


@pytest.mark.parametrize("word", ["train.epochs", "=3", ""])
def test_what_is_no_assignment_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        parse_assignments([word])


tables = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(tables, tables)
def test_overlay_keeps_what_is_not_changed(base: dict[str, object], changes: dict[str, object]) -> None:
    merged = overlay(base, changes)
    assert set(merged) == set(base) | set(changes)
    assert overlay(merged, changes) == merged
    assert overlay(base, {}) == base


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_toml(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("a = ")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a TOML file"):
        read_toml(bad)
