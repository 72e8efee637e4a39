from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.ledger.query import Comparison, parse_where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deviation > 0.05", [Comparison("deviation", ">", 0.05)]),
        ("  a<=-1e-3  ", [Comparison("a", "<=", -1e-3)]),
        ("a >= .5 and b < 3.", [Comparison("a", ">=", 0.5), Comparison("b", "<", 3.0)]),
        ("verdict == 'gear_wear'", [Comparison("verdict", "==", "gear_wear")]),
        ('verdict != "it\'s and so"', [Comparison("verdict", "!=", "it's and so")]),
        (
            "accepted == false and accepted != true",
            [Comparison("accepted", "==", False), Comparison("accepted", "!=", True)],
        ),
        ("android == 1 and band == 2", [Comparison("android", "==", 1.0), Comparison("band", "==", 2.0)]),
    ],
)
def test_comparisons_are_understood(text: str, expected: list[Comparison]) -> None:
    found = parse_where(text)
    assert list(found) == expected
    assert [type(one.value) for one in found] == [type(one.value) for one in expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at its end expected COLUMN"),
        ("deviation", "at 'deviation' expected COLUMN"),
        ("deviation = 3", "at 'deviation = 3' expected COLUMN, one of =="),
        ("0.05 < deviation", "at '0.05 < deviation' expected COLUMN"),
        ("deviation > 0.05 or a > 1", "at 'or a > 1' expected 'and' or the end"),
        ("deviation > 0.05 and", "at its end expected COLUMN"),
        ("deviation > 0.05and a > 1", "expected 'and' or the end"),
        ("(deviation > 1)", r"at '\(deviation > 1\)' expected COLUMN"),
        ("a > 1 < 2", "at '< 2' expected 'and'"),
        ("a > nan", "expected COLUMN"),
        ("verdict == 'open", "expected COLUMN"),
        ("verdict == wear", "a number, a 'text', true or false"),
        ("__import__('os').remove('x')", "expected COLUMN"),
    ],
)
def test_nonsense_is_refused_with_its_place_and_an_example(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        parse_where(text)
    assert "such as: deviation > 0.05 and verdict == 'gear_wear'" in str(refused.value)


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        found = parse_where(text)
    except ConfigError:
        return
    assert all(one.operator in {"==", "!=", "<", "<=", ">", ">="} for one in found)
