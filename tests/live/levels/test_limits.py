from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from cgsa.errors import ConfigError
from cgsa.live.levels.iso20816 import ISO_LIMITS
from cgsa.live.levels.limits import QUANTITIES, START_FACTORS, LevelLimits, LimitRule

CHANNELS = ("motor", "gearbox z", "torque")
NO_VELOCITY = {"torque": "its unit is Nm"}
VELOCITY = QUANTITIES.index("velocity")


def resolved(*lines: str, channels: tuple[str, ...] = CHANNELS) -> LevelLimits:
    return LevelLimits.of([LimitRule.parse(line) for line in lines], channels, NO_VELOCITY)


def test_reads_channel_quantity_warning_and_alarm() -> None:
    rule = LimitRule.parse("'gearbox z' velocity 4.5 7.1")
    assert (rule.channel, rule.quantities, rule.limits) == ("gearbox z", ("velocity",), (4.5, 7.1))
    warning, alarm = LimitRule.parse("motor peak - 9").limits
    assert isnan(warning)
    assert alarm == 9


@pytest.mark.parametrize("name", ISO_LIMITS)
def test_zones_of_the_standard_are_chosen_by_name(name: str) -> None:
    warning, alarm = ISO_LIMITS[name]
    assert 0 < warning < alarm
    fixed = resolved(name).fixed
    assert fixed[:2, VELOCITY].tolist() == [[warning, alarm]] * 2
    assert np.isnan(fixed[2]).all()
    assert np.isnan(fixed[:, :VELOCITY]).all()
    assert np.isnan(resolved(f"motor {name}").fixed[1]).all()


def test_the_boundaries_are_those_of_the_standard() -> None:
    """Tables A.1 and A.2: boundaries B/C and C/D follow each other in the series of severity steps."""
    assert ISO_LIMITS["iso20816-3 group 1 rigid"] == ISO_LIMITS["iso20816-3 group 2 flexible"] == (4.5, 7.1)
    assert ISO_LIMITS["iso20816-3 group 2 rigid"] == (2.8, 4.5)
    assert ISO_LIMITS["iso20816-3 group 1 flexible"] == (7.1, 11.0)


@pytest.mark.parametrize("order", [1, -1])
def test_the_line_of_a_channel_counts_whatever_the_order(order: int) -> None:
    lines = ["automatic", "iso20816-3 group 2 rigid", "motor velocity 1 2"][::order]
    found = resolved(*lines)
    assert found.fixed[0, VELOCITY].tolist() == [1, 2]
    assert found.fixed[1, VELOCITY].tolist() == [2.8, 4.5]
    assert np.isnan(found.of_start[:, VELOCITY]).all()
    assert found.of_start[:, QUANTITIES.index("rms")].tolist() == [list(START_FACTORS)] * 3


def test_of_two_equal_lines_the_later_counts() -> None:
    assert resolved("motor rms 1 2", "motor rms 3 4").fixed[0, 0].tolist() == [3, 4]


def test_automatic_limits_are_multiples_of_the_start() -> None:
    limits = resolved("automatic 2 4", "motor rms 1 9")
    start = np.arange(9.0).reshape(3, 3)
    found = limits.with_start(start)
    assert found[0, 0].tolist() == [1, 9]
    assert found[1, 0].tolist() == [6, 12]
    assert found[1, VELOCITY].tolist() == [10, 20]
    assert np.isnan(found[:, QUANTITIES.index("peak")]).all()
    assert np.isnan(limits.with_start(np.full((3, 3), np.nan))[1]).all()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "expected a channel, a quantity"),
        ("motor velocity 4.5", "expected a channel, a quantity"),
        ("motor displacement 4 5", "rms, peak, velocity"),
        ("iso20816-3 group 3 rigid", "iso20816-3 group 2 rigid"),
        ("motor rms a b", "could not convert string to float: 'a'; expected numbers, or - for none"),
        ("motor rms 5 4", "expected positive limits, the warning not above the alarm"),
        ("motor rms 0 4", "expected positive limits"),
        ("motor rms - -", "expected positive limits"),
        ("motor rms inf inf", "expected positive limits"),
        ("automatic 3 2", "expected positive limits"),
        ("'motor rms 1 2", "No closing quotation"),
    ],
)
def test_a_wrong_line_says_what_is_expected(line: str, problem: str) -> None:
    with pytest.raises(ConfigError) as found:
        LimitRule.parse(line)
    assert problem in str(found.value)
    assert repr(line) in str(found.value)


def test_unknown_channels_and_channels_without_velocity_are_refused() -> None:
    with pytest.raises(ConfigError, match="no channel 'moto'; there are motor, gearbox z, torque"):
        resolved("moto rms 1 2")
    with pytest.raises(ConfigError, match=r"there is no velocity .torque: its unit is Nm"):
        resolved("torque velocity 1 2")
    with pytest.raises(ConfigError, match="there is no velocity"):
        resolved("iso20816-3 group 2 rigid", channels=("torque",))
