from __future__ import annotations

import pytest

from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.live.levels.config import LevelConfig


def test_one_line_or_several() -> None:
    one = bind(LevelConfig, {"limits": "iso20816-3 group 2 rigid"}, "levels")
    several = bind(LevelConfig, {"limits": ["iso20816-3 group 2 rigid", "x rms 1 2"]}, "levels")
    assert [rule.line for rule in one.rules()] == ["iso20816-3 group 2 rigid"]
    assert [rule.line for rule in several.rules()] == ["iso20816-3 group 2 rigid", "x rms 1 2"]
    assert LevelConfig().rules() == ()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"limits": "x rms 2 1"}, "warning not above the alarm"),
        ({"limits": 3}, "limits: expected a text, got 3"),
        ({"duration": -1}, "duration -1; expected seconds, 0 or more"),
        ({"hysteresis": 1}, "hysteresis 1; expected a share"),
        ({"band": [1000, 10]}, "expected two frequencies in Hz in ascending order"),
        ({"start_seconds": 0}, "start_seconds 0; expected more than 0"),
        ({"trend_hours": 0}, "trend_hours 0; expected more than 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        bind(LevelConfig, settings, "levels")
