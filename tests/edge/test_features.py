from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.edge.features import feature_graph
from cgsa.edge.graph import GraphBuilder
from cgsa.errors import BundleError
from cgsa.nn.frame_sums import RecentFrames
from cgsa.nn.spectra import FeatureConfig, SpectrumFeatures, WindowFeatures, build_features

KINDS = ("spectrum", "cross_spectrum", "envelope", "high_envelope", "cepstrum", "statistics")


def exported(features: WindowFeatures, spec: WindowSpec, samples: torch.Tensor) -> np.ndarray:
    graph = GraphBuilder()
    graph.output("features", feature_graph(graph.input("samples", 2), features, spec), 2)
    session = onnxruntime.InferenceSession(graph.to_bytes(), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"samples": samples.numpy()})
    return np.asarray(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("channels", "spec", "frame"),
    [(3, WindowSpec(512, 64), 32), (2, WindowSpec(500, 37), 32), (2, WindowSpec(300, 400), 21)],
    ids=["shared frames", "frames of each window", "windows apart, odd frames"],
)
def test_features_are_those_of_torch(kind: str, channels: int, spec: WindowSpec, frame: int) -> None:
    torch.manual_seed(0)
    samples = torch.randn(channels, channels).double() @ torch.randn(channels, spec.length + 3 * spec.step + 5).double()
    samples[0] *= 100
    samples[1, : spec.length] = 0.5
    features = build_features(FeatureConfig(kind, frame), channels, spec)
    features.fit(torch.randn(channels, 1000))
    found = exported(features, spec, samples)
    expected = features.double()(overlapping_windows(samples, spec.length, spec.step).contiguous())
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-9)


def test_features_of_others_are_refused() -> None:
    class Own(WindowFeatures):
        def forward(self, x: torch.Tensor, recent: RecentFrames | None = None) -> torch.Tensor:
            return x.mean(dim=2)

    graph = GraphBuilder()
    with pytest.raises(BundleError, match="features Own cannot be exported"):
        feature_graph(graph.input("samples", 2), Own(1, WindowSpec(64, 8), 16), WindowSpec(64, 8))
    assert issubclass(SpectrumFeatures, WindowFeatures)
