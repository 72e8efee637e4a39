from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.data.windows import Windows
from cgsa.errors import ConfigError, DataError
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.nn.reference import median_reference
from cgsa.offline.config import TrainConfig
from cgsa.offline.references import GENERAL_SHARE, REFERENCES_PER_MACHINE, References
from tests.machines import manifest, training_windows
from tests.offline.training import train_model

NETWORK = NetworkConfig(frontend="bands", hidden=(24, 8), tap=8, reference=True)


def fitted(windows: Windows) -> DiagnosisNet:
    network = build_seeded(0, lambda: DiagnosisNet(NETWORK, 2, 32, 3))
    network.frontend.fit(windows.samples, windows.gather(slice(None)))
    return network


def references(windows: Windows, seconds: float = 0.2) -> References:
    return References(windows, fitted(windows), seconds=seconds, generator=torch.Generator().manual_seed(0))


def test_references_are_healthy_spans_of_one_recording_of_the_machine() -> None:
    windows = training_windows()
    network, found = fitted(windows), references(windows)
    inputs = network.frontend(windows.gather(slice(None)))
    wanted = round(0.2 * windows.sample_rate / windows.spec.step)
    spans: dict[int, list[torch.Tensor]] = {}
    for segment in sorted(set(windows.segments.tolist())):
        places = torch.nonzero(windows.segments == segment).squeeze(1)
        if int(windows.labels[places[0]]) == 0:
            machine = int(windows.machines[places[0]])
            spans.setdefault(machine, []).extend(
                median_reference(inputs[begin : begin + wanted])
                for begin in places[: len(places) - wanted + 1].tolist()
            )
    for machine, allowed in spans.items():
        drawn = found.draw(torch.full((64,), machine), torch.Generator().manual_seed(1))
        possible = torch.stack([*allowed, found.mean])
        nearest = torch.cdist(drawn.double(), possible.double()).amin(dim=1)
        assert float(nearest.max()) < 1e-5
    assert len(spans) == 2


def test_the_general_reference_is_drawn_sometimes() -> None:
    found = references(training_windows())
    drawn = found.draw(torch.ones(4000, dtype=torch.long), torch.Generator().manual_seed(1))
    share = float((drawn == found.mean).all(dim=1).float().mean())
    assert abs(share - GENERAL_SHARE) < 0.03
    assert len(torch.unique(drawn, dim=0)) <= REFERENCES_PER_MACHINE + 1


def test_every_machine_needs_a_healthy_recording() -> None:
    windows = training_windows()
    without = windows.subset((windows.machines == 1) | (windows.labels != 0))
    with pytest.raises(DataError, match="machine 2 has no healthy recording"):
        references(without)


def test_a_network_has_the_mean_reference_and_subtracts_the_given_one() -> None:
    windows = training_windows(step=32)
    described = replace(manifest(objective="plain"), network=NETWORK)
    bundle = train_model(windows, described, TrainConfig(epochs=2, batch_size=64))
    assert bundle.network.reference is not None
    x = windows.gather(slice(0, 8))
    own = bundle.network.frontend(x[:1])[0]
    shifted = bundle.network.inputs(x, own)
    torch.testing.assert_close(shifted, bundle.network.frontend(x) - own)
    torch.testing.assert_close(bundle.network.inputs(x), bundle.network.frontend(x) - bundle.network.reference)
    # What the front-end made before is taken as it is.
    torch.testing.assert_close(bundle.network(bundle.network.frontend(x)), bundle.network(x))


def test_the_span_must_have_a_positive_length() -> None:
    with pytest.raises(ConfigError, match="reference_seconds 0"):
        TrainConfig(reference_seconds=0.0)
