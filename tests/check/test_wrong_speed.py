from __future__ import annotations

from dataclasses import replace

from cgsa.check.run import check_data
from tests.check.clean_set import clean_set


def test_recordings_under_a_wrong_speed_are_found_by_their_lines() -> None:
    wrong = "crack_run2__1500rpm"
    spoilt = [replace(one, conditions={"speed_rpm": 1200.0}) if one.name == wrong else one for one in clean_set()]
    [finding] = check_data(spoilt, ["stated_speed"]).findings
    assert finding.recordings == (wrong,)
    assert "not of 1200 as stated" in finding.found
