from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.explain.evidence import SpectrumComparison
from cgsa.explain.line_families import LineFamily, NamedLine, Speeds
from cgsa.explain.matching import family_scores, match_family, ranked
from cgsa.explain.spectra import AveragedSpectrum, DoubleArray

STEP = 0.5
LINES = tuple(NamedLine(f"line {number}", 3.1 * number, weight=1 / number) for number in (1, 2, 3))
FAMILY = LineFamily("part", "family", "damage", "envelope", LINES, slip=0.01)
SPEED = Speeds(25.0)


def comparison(evidence: DoubleArray) -> SpectrumComparison:
    return SpectrumComparison(AveragedSpectrum(np.ones_like(evidence), STEP), (), evidence)


def evidence_on(family: LineFamily, slip: float = 0.0, channels: int = 2) -> DoubleArray:
    found = 0.3 * np.random.default_rng(0).standard_normal((channels, 1000))
    for line in family.lines:
        found[:, round(line.frequency(SPEED) * (1 + slip) / STEP)] = 8.0
    return found


@given(st.integers(0, 1000), st.floats(5.0, 100.0), st.floats(0.0, 60.0))
def test_scores_are_those_of_a_loop(seed: int, speed: float, supply: float) -> None:
    evidence = np.random.default_rng(seed).standard_normal((2, 600))
    lines = (*LINES, NamedLine("fed", 0.5, 2.0, weight=0.3))
    family = LineFamily("part", "family", "damage", "vibration", lines)
    expected = []
    for row in evidence:
        total = weight = 0.0
        for line in lines:
            place = round(line.frequency(Speeds(speed, supply)) / STEP)
            if 3 <= place < 599:
                total += line.weight * row[place - 1 : place + 2].max()
                weight += line.weight
        expected.append(total / weight if weight else np.nan)
    scores, _ = family_scores(evidence, STEP, family, [Speeds(speed, supply)])
    np.testing.assert_allclose(scores[0], expected)


@pytest.mark.parametrize("slip", [-0.01, 0.0, 0.0075])
def test_a_family_is_found_with_its_slip(slip: float) -> None:
    found = match_family(comparison(evidence_on(FAMILY, slip)), FAMILY, [0, 1], SPEED)
    assert found is not None
    assert found.speaks
    assert found.strength > 4
    assert found.slip == pytest.approx(slip, abs=0.004)


def test_strength_is_in_deviations_of_random_speeds() -> None:
    """A family of many weak lines is stronger than one of a few that stand out as often by chance."""
    evidence = np.random.default_rng(5).standard_normal((1, 4000))
    many = tuple(NamedLine(f"line {number}", 0.913 * number) for number in range(1, 61))
    few = (NamedLine("one", 1.37), NamedLine("two", 2.21))
    for line, height in (*((line, 1.2) for line in many), *((line, 2.5) for line in few)):
        place = round(line.frequency(SPEED) / STEP)
        evidence[0, place - 1 : place + 2] = height
    families = [LineFamily("part", name, "", "vibration", lines) for name, lines in (("few", few), ("many", many))]
    found = [match_family(comparison(evidence), one, [0], SPEED) for one in families]
    scores = [family_scores(evidence, STEP, one, [SPEED])[0].item() for one in families]
    assert scores[0] > scores[1]
    assert [one.family.name for one in ranked([one for one in found if one is not None])] == ["many", "few"]


def test_noise_alone_does_not_speak() -> None:
    evidence = np.random.default_rng(3).standard_normal((3, 1000))
    found = match_family(comparison(evidence), FAMILY, [0, 1, 2], SPEED)
    assert found is not None
    assert found.chance > 0.02
    assert abs(found.strength) < 2


def test_only_the_given_channels_count() -> None:
    evidence = evidence_on(FAMILY, channels=3)
    evidence[1:] = 0.1
    found = match_family(comparison(evidence), FAMILY, [1, 2], SPEED)
    assert found is not None
    assert not found.speaks
    loud = match_family(comparison(evidence), FAMILY, [2, 0], SPEED)
    assert loud is not None
    assert loud.loudest == 0


def test_lines_beyond_the_spectrum_are_no_match() -> None:
    assert match_family(comparison(np.ones((1, 50))), FAMILY, [0], Speeds(1e4)) is None


def test_a_part_of_another_family_comes_after_it() -> None:
    part = LineFamily("cage", "first line", "cage", "envelope", LINES[:1], slip=0.01)
    other = LineFamily("other", "other", "other", "envelope", (NamedLine("other", 7.77),))
    evidence = evidence_on(FAMILY)
    found = [match_family(comparison(evidence), one, [0], SPEED) for one in (other, part, FAMILY)]
    names = [one.family.name for one in ranked([one for one in found if one is not None])]
    assert names == ["family", "first line", "other"]
