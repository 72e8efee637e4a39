from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.nn.ensemble import Ensemble
from cgsa.offline import imitations
from cgsa.offline.imitations import LEAST_WINDOWS, Imitations, imitate
from cgsa.offline.impostors import impostors
from tests.machines import CLASSES, ENSEMBLE, ENSEMBLE_SPEC, ensemble_windows

KINDS = list(impostors(("a", "b"), ("g", "g")))[:3]


def ensemble() -> Ensemble:
    found = Ensemble(ENSEMBLE, 2, ENSEMBLE_SPEC, len(CLASSES))
    found.fit_channels(ensemble_windows().samples)
    return found


def test_imitations_are_features_of_imitated_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One window per recording, and noise from the first draws of a fixed generator."""
    windows = ensemble_windows()
    signals = list(windows.signals())
    monkeypatch.setattr(imitations, "LEAST_WINDOWS", len(signals))
    monkeypatch.setattr(imitations, "SAMPLES", 0)
    found = imitate(ensemble(), windows, KINDS)
    assert found.recordings.tolist() == list(range(len(signals)))
    random, length = np.random.default_rng(0), ENSEMBLE_SPEC.length
    for signal, features in zip(signals, found.features, strict=True):
        stretch = signal[:, : 2 * length].double().numpy()
        for kind, own in zip(KINDS, features, strict=True):
            window = kind.imitate(stretch, random)[None, :, :length].astype(np.float32)
            torch.testing.assert_close(torch.cat(ensemble().extract(torch.from_numpy(window)), dim=1)[0], own)


@pytest.mark.parametrize(("samples", "wanted"), [(0, LEAST_WINDOWS), (10**12, imitations.MOST_WINDOWS)])
def test_the_number_of_windows_is_limited(monkeypatch: pytest.MonkeyPatch, samples: int, wanted: int) -> None:
    monkeypatch.setattr(imitations, "SAMPLES", samples)
    windows = ensemble_windows()
    recordings = len(list(windows.signals()))
    assert len(imitate(ensemble(), windows, KINDS).features) == recordings * -(-wanted // recordings)


def test_windows_of_some_recordings_are_selected() -> None:
    found = Imitations(torch.arange(12.0).reshape(4, 3, 1), torch.tensor([0, 0, 3, 5]))
    assert found.made_from(torch.tensor([5, 0, 0, 7])).flatten().tolist() == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    assert len(found.made_from(torch.tensor([1]))) == 0
