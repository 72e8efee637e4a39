from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.nn.known import UNLIKE
from cgsa.offline.impostors import Impostor, Signal, impostors

THREE = {one.name: one for one in impostors(("x", "y", "z"), ("g", "g", "V"))}
SAMPLES = 2048


def signal(seed: int = 0, channels: int = 3) -> Signal:
    """Lines and noise with different offsets and levels."""
    random, time = np.random.default_rng(seed), np.arange(SAMPLES)
    scale = 1.0 + np.arange(channels)[:, None]
    return np.asarray(scale * (5 + np.sin(0.1 * time) + 0.3 * random.standard_normal((channels, SAMPLES))))


def made(name: str, of: Signal) -> Signal:
    return THREE[name].imitate(of, np.random.default_rng(1))


def test_what_is_imitated_follows_from_the_channels() -> None:
    names = {one.name for one in impostors(("a",), ("g",))}
    assert {"white noise", "ten times the level", "half the sample rate"} <= names
    assert not any("swapped" in name or "rotated" in name or "channels" in name for name in names)
    # Only a sensor with the same unit in both channels can be rotated.
    assert {"x and y swapped", "x and z swapped", "x and y rotated by 45 degrees"} <= THREE.keys()
    assert not any("z" in name and "rotated" in name for name in THREE)


def test_many_channels_are_paired_with_their_neighbours_alone() -> None:
    names = tuple("abcde")
    swapped = [one.name for one in impostors(names, ("g",) * 5) if "swapped" in one.name]
    assert swapped == ["a and b swapped", "b and c swapped", "c and d swapped", "d and e swapped"]


def test_every_imitation_has_its_own_name_and_a_question_of_its_own() -> None:
    every = list(impostors(tuple("abc"), ("g",) * 3))
    assert len({one.name for one in every}) == len(every)
    questions = [one.question for one in every if one.question != UNLIKE]
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("one", THREE.values(), ids=lambda one: one.name)
def test_an_imitation_leaves_the_recording_alone_and_fills_a_window(one: Impostor) -> None:
    genuine = signal()
    kept = genuine.copy()
    found = one.imitate(genuine, np.random.default_rng(0))
    assert np.array_equal(genuine, kept)
    assert found.shape[0] == 3
    assert found.shape[1] >= SAMPLES // 2
    assert np.isfinite(found).all()
    assert not np.array_equal(found[:, : SAMPLES // 2], genuine[:, : SAMPLES // 2])


@pytest.mark.parametrize("name", [name for name in THREE if "noise" in name])
@given(seed=st.integers(0, 20))
def test_noise_has_mean_and_level_of_every_channel(name: str, seed: int) -> None:
    genuine = signal(seed)
    found = THREE[name].imitate(genuine, np.random.default_rng(seed))
    np.testing.assert_allclose(found.mean(axis=1), genuine.mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.std(axis=1), genuine.std(axis=1))


def test_channels_are_swapped_and_rotated() -> None:
    genuine = signal()
    assert np.array_equal(made("x and z swapped", genuine), genuine[[2, 1, 0]])
    quarter = made("x and y rotated by 90 degrees", genuine)
    np.testing.assert_allclose(quarter, np.stack([-genuine[1], genuine[0], genuine[2]]), atol=1e-12)
    turned = made("x and y rotated by 45 degrees", genuine)
    np.testing.assert_allclose((turned[:2] ** 2).sum(axis=0), (genuine[:2] ** 2).sum(axis=0))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("half the", 0.5), ("0.8 times the", 0.8), ("1.25 times the", 1.25), ("twice the", 2.0)],
)
def test_another_sample_rate_moves_a_line(name: str, factor: float) -> None:
    genuine = np.tile(np.sin(2 * np.pi * 0.1 * np.arange(SAMPLES)), (3, 1))
    found = made(f"{name} sample rate", genuine)
    assert found.shape[1] == pytest.approx(factor * SAMPLES, abs=1)
    power = np.abs(np.fft.rfft(found[0] * np.hanning(found.shape[1])))
    assert np.fft.rfftfreq(found.shape[1])[power.argmax()] == pytest.approx(0.1 / factor, abs=2e-3)


def test_a_mirrored_spectrum_has_low_frequencies_highest() -> None:
    genuine = np.tile(np.sin(2 * np.pi * 0.1 * np.arange(SAMPLES)), (3, 1))
    power = np.abs(np.fft.rfft(made("mirrored spectrum", genuine)[0]))
    assert np.fft.rfftfreq(SAMPLES)[power.argmax()] == pytest.approx(0.4, abs=2e-3)
