"""What the checks say about the published sets; every statement here was verified on the samples themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgsa.check.run import check_data
from cgsa.check.sources import recordings_below

DATA = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "../shared/data"))
WARNINGS = {
    # The end of one recording is the start of the next, and the lines of three are those of 1100 rpm, not 1000.
    "bldc_iq": {
        ("doubled", "unbalance_run2__1000rpm.npz"),
        ("stated_speed", "unbalance_run2__1000rpm.npz"),
        ("stated_speed", "unbalance_run3__1000rpm.npz"),
        ("stated_speed", "unbalance_run4__1000rpm.npz"),
    },
    "current_motor": set(),
    "kat_units": set(),
    "spectraquest_gearbox": set(),
    # The phone reaches the end of its range (2 g), slides while the motor runs, and once the motor becomes quieter.
    "phone_motor2": {
        ("clipping", "bearing_severe__50Hz_Z.npz"),
        ("clipping", "bearing_severe__55Hz_Z.npz"),
        ("clipping", "bearing_severe__60Hz_Z.npz"),
        ("drift", "bearing_minor__25Hz_Y.npz"),
        ("drift", "bearing_severe__20Hz_Y.npz"),
        ("drift", "bearing_severe__25Hz_Y.npz"),
        ("drift", "bearing_severe__30Hz_Y.npz"),
        ("drift", "healthy_new_bearing__25Hz_Y.npz"),
        ("drift", "healthy_new_bearing__35Hz_Y.npz"),
        ("offset_jump", "unbalance_4w__20Hz_Y.npz"),
    },
    "limerick_motor": set(),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_about_a_published_set_are_true_ones(name: str) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"no recordings in {DATA / name}; set CGSA_DATA to the folder that holds {name}")
    found = check_data(recordings_below(DATA / name, sample_rate=12_800)).findings
    assert {(one.check, one.recordings[0]) for one in found if one.severity != "note"} == WARNINGS[name]
