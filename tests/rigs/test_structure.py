from __future__ import annotations

import numpy as np
import pytest

from cgsa.data.run import SAMPLE_RATE
from cgsa.rigs.structure import Structure


def single_mode(frequency: float = 1000.0, damping: float = 0.02, mass: float = 10.0) -> Structure:
    return Structure(np.array([frequency]), np.array([damping]), np.full((1, 1, 1), 1 / mass))


def steady_amplitude(structure: Structure, frequency: float) -> float:
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    response = structure.respond(np.sin(2 * np.pi * frequency * time)[None, :], SAMPLE_RATE)
    return float(np.sqrt(2) * response[0, SAMPLE_RATE // 2 :].std())


def test_a_mode_resonates_at_its_frequency_with_its_damping() -> None:
    assert steady_amplitude(single_mode(), 1000.0) == pytest.approx(1 / 10 / (2 * 0.02), rel=0.01)


def test_a_mode_is_a_spring_far_below_and_a_mass_far_above() -> None:
    assert steady_amplitude(single_mode(), 100.0) == pytest.approx((100 / 1000) ** 2 / 10, rel=0.05)
    assert steady_amplitude(single_mode(), 6000.0) == pytest.approx(1 / 10, rel=0.05)


def test_modes_add_up_over_axes_and_forces() -> None:
    rng = np.random.default_rng(0)
    forces = rng.standard_normal((2, 500))
    gains = rng.standard_normal((2, 3, 2))
    both = Structure(np.array([300.0, 2000.0]), np.array([0.03, 0.02]), gains)
    apart = [Structure(both.frequencies[[mode]], both.damping[[mode]], gains[[mode]]) for mode in (0, 1)]
    response = both.respond(forces, SAMPLE_RATE)
    assert response.shape == (3, 500)
    np.testing.assert_allclose(response, sum(part.respond(forces, SAMPLE_RATE) for part in apart))
    one_force = forces * np.array([[1.0], [0.0]])
    np.testing.assert_allclose(
        response, both.respond(one_force, SAMPLE_RATE) + both.respond(forces - one_force, SAMPLE_RATE)
    )


def test_reassembly_shifts_modes_a_little_and_paths_more() -> None:
    count = 400
    structure = Structure(np.full(count, 1000.0), np.full(count, 0.02), np.ones((count, 1, 1)))
    again = structure.reassembled(np.random.default_rng(1), shift=0.01, spread=0.15)
    assert np.std(again.frequencies / 1000) == pytest.approx(0.01, rel=0.15)
    assert np.std(again.gains) == pytest.approx(0.15, rel=0.15)
    assert (again.damping > 0).all()
    same = structure.reassembled(np.random.default_rng(1), shift=0.01, spread=0.15)
    np.testing.assert_array_equal(again.gains, same.gains)
