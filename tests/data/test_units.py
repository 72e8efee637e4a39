from __future__ import annotations

import pytest

from cgsa.data.units import OTHER_SPELLINGS, UNITS, normalise_unit, unit_conversion
from cgsa.errors import DataError


def convert(value: float, given: str, wanted: str) -> float:
    factor, offset = unit_conversion(given, wanted)
    return value * factor + offset


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        (1, "g", "m/s^2", 9.80665),
        (2000, "mm/s2", "m/s²", 2),
        (1, "m/s", "mm/s", 1000),
        (1500, "mA", "A", 1.5),
        (50, "Hz", "rpm", 3000),
        (1, "kNm", "N·m", 1000),
        (25, "°C", "K", 298.15),
        (212, "degF", "degC", 100),
        (1, "bar", "Pa", 1e5),
    ],
)
def test_conversion(value: float, given: str, wanted: str, expected: float) -> None:
    assert convert(value, given, wanted) == pytest.approx(expected)


@pytest.mark.parametrize("unit", UNITS)
def test_conversion_there_and_back(unit: str) -> None:
    for other in UNITS:
        if UNITS[other].quantity == UNITS[unit].quantity:
            assert convert(convert(3.0, unit, other), other, unit) == pytest.approx(3.0)


def test_every_spelling_is_of_a_known_unit() -> None:
    for unit, texts in OTHER_SPELLINGS.items():
        assert {normalise_unit(text) for text in (unit, f"[{unit}]", f"( {unit} )", *texts)} == {unit}


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [("g", "A", "acceleration, the other of current"), ("g", "furlong", "unit 'furlong' is unknown; known: m/s")],
)
def test_units_that_cannot_be_converted(given: str, wanted: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unit_conversion(given, wanted)


def test_an_unknown_unit_equals_itself() -> None:
    assert unit_conversion("counts", " counts ") == (1.0, 0.0)
