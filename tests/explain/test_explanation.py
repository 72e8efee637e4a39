from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.explain.bands import band_changes
from cgsa.explain.explanation import Explanation, explain_interval
from cgsa.explain.peaks import chance_of_a_name
from cgsa.explain.spectra import averaged_spectrum
from tests.explain.signals import BEARING, GEOMETRY, RATE, SPEED, impacts, line, noise, recording

HEALTHY = [recording(noise(seed, channels=2), source=f"healthy {seed}") for seed in (1, 2)]
SHAFT = SPEED / 60


def explained(current: Recording, **options: object) -> Explanation:
    return explain_interval(current, HEALTHY, BEARING, **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("ring", "name"), [("outer", "BPFO"), ("inner", "BPFI")])
def test_impacts_at_the_rate_of_a_ring_are_named(ring: str, name: str) -> None:
    signal = noise(0, channels=2)
    # A damage of the inner ring passes the load zone once per revolution.
    load = 1 + line(SHAFT, 1.0) if ring == "inner" else 1.0
    signal[1] += load * impacts(SHAFT * float(getattr(GEOMETRY, ring)) * 0.995, 12.0)
    found = explained(recording(signal))
    first = found.families[0]
    assert (first.name, first.speaks, first.channel) == (f"{name} of test bearing", True, "v1")
    assert first.chance < 0.02
    assert f"damage of the {ring} ring" in found.sentences[0]
    assert any(one.envelope and one.name == f"{name} of test bearing" for one in found.peaks)


def test_a_line_of_the_shaft_is_named() -> None:
    signal = noise(0, channels=2) + line(SHAFT, 1.0) + line(2 * SHAFT, 1.0)
    found = explained(recording(signal))
    assert found.families[0].name == "harmonics of shaft shaft"
    names = {one.name for one in found.peaks}
    assert {"shaft shaft", "2nd shaft shaft"} <= names


def test_a_healthy_recording_has_nothing_to_name() -> None:
    found = explained(recording(noise(9, channels=2)))
    assert sum(one.speaks for one in found.families) <= 1
    assert not found.peaks or max(one.decibels for one in found.peaks) < 12


def test_the_speed_may_be_given_or_unknown() -> None:
    signal = noise(0, channels=2) + impacts(900 / 60 * GEOMETRY.outer, 8.0)
    nameless = replace(recording(signal), conditions={})
    healthy = [replace(one, conditions={}) for one in HEALTHY]
    found, _ = explain_interval(nameless, healthy, BEARING, speed=900.0)
    assert found.families[0].name == "BPFO of test bearing"
    unknown, _ = explain_interval(nameless, healthy, BEARING)
    assert unknown.families == ()
    assert "the speed is unknown" in unknown.notes[0]


def test_without_a_healthy_recording_lines_are_compared_with_their_surroundings() -> None:
    found, spectra = explain_interval(recording(noise(0) + line(700.0, 2.0)))
    assert found.peaks[0].frequency == pytest.approx(700.0)
    assert found.bands == ()
    assert spectra.plain.healthy == ()
    assert "no healthy recording" in found.notes[0]


def test_bands_beyond_the_healthy_scatter_come_first() -> None:
    signal = noise(0, channels=2)
    signal[0] += 2 * line(1000.0, 1.0)
    best = band_changes(signal, [one.signal.astype(np.float64) for one in HEALTHY], RATE, ("v0", "v1"))[0]
    assert best.channel == "v0"
    assert best.low <= 1000 <= best.high
    assert 0 < best.beyond < best.decibels


def test_a_healthy_recording_at_another_speed_is_told() -> None:
    slow = replace(HEALTHY[0], conditions={"speed": np.full(HEALTHY[0].samples, 1200.0, np.float32)})
    found, _ = explain_interval(recording(noise(0, channels=2)), [slow], BEARING)
    assert "healthy at 1200 rpm, not 1500 rpm" in found.notes[0]


def test_other_channels_are_refused() -> None:
    with pytest.raises(DataError, match="other channels"):
        explain_interval(recording(noise(0)), HEALTHY)


def test_the_chance_of_a_name_is_the_share_of_named_frequencies() -> None:
    spectrum = averaged_spectrum(noise(0), RATE, round(RATE))
    assert chance_of_a_name(spectrum, [("a", 99.0)]) == pytest.approx(3 / 101)
    assert chance_of_a_name(spectrum, []) == 0.0
