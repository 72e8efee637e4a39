from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cgsa.data.windows import Segment, Windows
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import NEVER, QUESTION
from cgsa.nn.offset import UNLIKE_OFFSET
from cgsa.offline.ensemble import extract_features
from cgsa.offline.impostors import impostors
from cgsa.offline.known import FittedKnown, fit_known
from cgsa.offline.offset import NO_OFFSET, imitated_means, nearness_limits, offset_scale, static_channels
from tests.machines import CLASSES, ENSEMBLE, ENSEMBLE_SPEC
from tests.offline.test_known import recording

GRAVITY = np.array([3.0, 9.3])
SPEEDS = (40.0, 50.0, 60.0)


def windows(offset: float = 1.0) -> Windows:
    """The machine of the other checks, with gravity, each time mounted slightly otherwise."""
    random = np.random.default_rng(0)
    segments = []
    for speed in SPEEDS:
        for seed in range(2):
            mean = offset * (GRAVITY + 0.05 * random.standard_normal(2))
            shifted = recording(speed, seed).signal + mean[:, None].astype(np.float32)
            segments.append(Segment(replace(recording(speed, seed), signal=shifted), 0, 0))
    return Windows(segments, ENSEMBLE_SPEC, conditions=("speed",))


def fitted(offset: float = 1.0) -> tuple[Ensemble, FittedKnown]:
    ensemble = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    training = windows(offset)
    return ensemble, fit_known(ensemble, training, extract_features(ensemble, training))


def test_a_sensor_without_a_static_offset_has_no_such_check() -> None:
    assert fitted(offset=0.0)[1].config.offset is None
    assert fitted(offset=0.0)[1].check.offset is None


def test_what_gravity_tells_is_named() -> None:
    ensemble, known = fitted()
    genuine = recording(55.0, 9).signal + GRAVITY[:, None]
    noise = np.random.default_rng(1).standard_normal(genuine.shape)
    cosine = np.sqrt(0.5)
    shown = {
        None: genuine,
        NO_OFFSET: noise,
        "channels a and b look swapped": genuine[::-1],
        "the sensor with channels a and b looks rotated by about 45 degrees": np.stack(
            [cosine * (genuine[0] - genuine[1]), cosine * (genuine[0] + genuine[1])]
        ),
        UNLIKE_OFFSET: genuine * [[1.0], [-1.0]],
    }
    for expected, signal in shown.items():
        samples = torch.from_numpy(np.ascontiguousarray(signal, dtype=np.float32))
        x = samples.unfold(1, ENSEMBLE_SPEC.length, 64).transpose(0, 1)
        found = known.check.evidence(ensemble.extract(x), x)[QUESTION].tolist()
        assert {known.config.question(number) for number in found} == {expected}


def test_held_out_windows_are_within_the_limit() -> None:
    _, known = fitted()
    assert float((known.distance > known.limit).double().mean()) <= 0.01


def test_all_channels_of_a_sensor_count_if_one_has_an_offset() -> None:
    training = windows()
    ensemble = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    features = extract_features(ensemble, training)
    features = replace(features, means=features.means - torch.tensor([3.0, 0.0]))
    assert static_channels(training.signals(), features, ("g", "g")) == [0, 1]
    assert static_channels(training.signals(), features, ("V", "g")) == [1]


def test_means_are_imitated_like_samples() -> None:
    means = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = {one.name: one.means for one in imitated_means(means, list(impostors(("a", "b"), ("g", "g"))))}
    assert torch.equal(found["a and b swapped"], means.flip(1))
    assert torch.equal(found["ten times the level"], 10 * means)
    torch.testing.assert_close(found["a and b rotated by 90 degrees"], torch.tensor([[-2.0, 1.0], [-4.0, 3.0]]))
    assert torch.equal(found["no offset"], torch.zeros(2, 2))
    # Noise and another rate keep the mean.
    assert not any("noise" in name or "rate" in name for name in found)


def test_the_scale_is_that_of_a_sensor() -> None:
    means = torch.tensor([[3.0, 4.0, 7.0], [3.0, -4.0, 7.0]])
    assert offset_scale(means, ("g", "g", "V")).tolist() == [5.0, 5.0, 7.0]


def test_limits_are_the_geometric_mean_or_never() -> None:
    genuine = torch.tensor([[0.1, 4.0, 0.1]]).repeat(100, 1)
    own = torch.tensor([[9.0, 16.0, 0.5]]).repeat(100, 1)
    assert nearness_limits(genuine, own).tolist() == [pytest.approx(3.0), pytest.approx(8.0), pytest.approx(NEVER)]
