from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError, UnknownNameError
from cgsa.explain.bearings import PUBLISHED, BearingGeometry, published_geometry

geometries = st.builds(
    BearingGeometry,
    balls=st.integers(4, 40),
    ball_diameter=st.floats(1.0, 30.0),
    pitch_diameter=st.floats(31.0, 200.0),
    contact_angle=st.floats(0.0, 40.0),
)


@given(geometries)
def test_all_balls_pass_both_rings_in_a_revolution(geometry: BearingGeometry) -> None:
    assert geometry.outer + geometry.inner == pytest.approx(geometry.balls)


@given(geometries)
def test_the_cage_is_slower_than_half_of_the_shaft(geometry: BearingGeometry) -> None:
    assert 0 < geometry.cage < 0.5
    assert geometry.outer == pytest.approx(geometry.balls * geometry.cage)


@given(geometries, st.floats(0.1, 25.4))
def test_the_unit_of_the_diameters_does_not_matter(geometry: BearingGeometry, unit: float) -> None:
    other = BearingGeometry(
        geometry.balls, geometry.ball_diameter * unit, geometry.pitch_diameter * unit, geometry.contact_angle
    )
    assert (other.outer, other.inner, other.spin) == pytest.approx((geometry.outer, geometry.inner, geometry.spin))


def test_rates_are_those_that_are_published_with_the_geometry() -> None:
    # Case Western Reserve University states these multiples of the speed for its drive-end and fan-end bearings.
    drive, fan = published_geometry("6205-2RS"), published_geometry("6203-2RS JEM SKF")
    assert (drive.inner, drive.outer, drive.cage) == pytest.approx((5.4152, 3.5848, 0.39828), rel=1e-3)
    assert 2 * drive.spin == pytest.approx(4.7135, rel=1e-3)
    assert (fan.inner, fan.outer, fan.cage) == pytest.approx((4.9469, 3.0530, 0.3817), rel=1e-3)
    curtin = published_geometry("er-16k")
    assert (curtin.cage, curtin.outer, curtin.inner) == pytest.approx((0.3969, 3.572, 5.428), rel=1e-3)


def test_an_unknown_part_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"bearing '6999'.*6203.*give balls"):
        published_geometry("6999")
    with pytest.raises(UnknownNameError):
        published_geometry(" ")
    assert set(PUBLISHED) == {name.upper() for name in PUBLISHED}


def test_impossible_geometry_is_refused() -> None:
    with pytest.raises(ConfigError, match="smaller than the pitch circle"):
        BearingGeometry(8, 30.0, 20.0)
