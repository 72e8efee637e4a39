from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.machines import noise_recording


def test_cut_is_a_view_with_its_offset() -> None:
    recording = noise_recording(200)
    piece = recording.cut(50, 150).cut(10, 20)
    assert piece.offset == 60
    assert np.shares_memory(piece.signal, recording.signal)
    np.testing.assert_array_equal(piece.conditions["torque"], recording.conditions["torque"][60:70])


def test_cut_outside_is_refused() -> None:
    with pytest.raises(DataError, match="cannot cut samples 150 to 250 out of 200"):
        noise_recording(200).cut(150, 250)


def test_select_orders_channels_and_units() -> None:
    recording = noise_recording()
    swapped = recording.select(["b", "a"])
    np.testing.assert_array_equal(swapped.signal, recording.signal[::-1])
    assert swapped.channels == ("b", "a")


def test_a_piece_is_centred_by_the_mean_of_the_whole() -> None:
    recording = noise_recording(200)
    mean = recording.signal.mean(axis=1, dtype=np.float64)
    whole = (recording.signal - mean[:, None]).astype(np.float32)
    stated = replace(recording, mean=mean)
    assert np.array_equal(stated.cut(50, 150).centred().signal, whole[:, 50:150])
    assert np.array_equal(stated.select(["b", "a"]).centred().signal, whole[::-1])
    assert stated.centred().mean is None
    # Without a stated mean, nothing is removed.
    assert recording.centred() is recording


def test_missing_channel_lists_the_available_ones() -> None:
    with pytest.raises(DataError, match="noise: no channel 'c'; it has a, b"):
        noise_recording().select(["a", "c"])


def test_nan_is_found_with_column_and_row() -> None:
    recording = noise_recording()
    recording.signal[1, 70:73] = np.nan
    with pytest.raises(DataError, match="column 'b' has 3 NaN or infinite values, first at row 70"):
        recording.cut(60, 100).require_finite()


def test_nan_in_a_condition_is_found() -> None:
    recording = noise_recording()
    recording.conditions["torque"][5] = np.inf
    with pytest.raises(DataError, match="column 'torque' has 1"):
        recording.require_finite()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signal": np.zeros(5, dtype=np.float32)}, "expected \\(channels, samples\\)"),
        ({"sample_rate": 0.0}, "expected a positive number"),
        ({"units": ("g",)}, "2 signal rows but 2 channel names and 1 units"),
        ({"mean": np.zeros(3)}, "mean has shape \\(3,\\); expected one value per row, \\(2,\\)"),
        ({"conditions": {"torque": np.zeros(3, dtype=np.float32)}}, "expected one value per sample"),
    ],
)
def test_inconsistent_recordings_are_refused(change: dict[str, object], message: str) -> None:
    fields = {**vars(noise_recording()), **change}
    with pytest.raises(DataError, match=message):
        Recording(**fields)
