"""Training of peers, on windows of at least a quarter of a second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgsa.bench.extras import import_extra
from cgsa.bench.rotation.folds import RotationFold
from cgsa.bench.rotation.learners import FittedModel
from cgsa.bench.rotation.peers import FloatArray, Peer
from cgsa.data.scenario import Library
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import Manifest
from cgsa.nn.spectra import FeatureConfig, WindowFeatures, build_features
from cgsa.profile import Profile
from cgsa.workflow import ENSEMBLE, training_spec

PEER_SECONDS = 0.25
"""Least length of a window."""
LONGEST_FRAME, SHORTEST_FRAME = 1024, 32
"""Limits of the frames whose spectra are averaged, in samples."""
TRAINING_STEP_SECONDS = 1 / 16
"""Least time from one training window to the next."""
BATCH = 256
"""Windows per pass."""


@dataclass(frozen=True)
class PeerLearner:
    """Fits a peer to the windows of a fold.

    ``profile`` has the windows of the model that the peer is compared with. A peer never gets shorter ones, nor more of
    them; where they are short, it gets a quarter of a second, since an averaged spectrum needs some frames.
    """

    peer: type[Peer]
    profile: Profile
    threads: int = 1

    @property
    def name(self) -> str:
        """Name of the peer."""
        return self.peer.name

    def fit(self, fold: RotationFold, library: Library, seed: int) -> FittedModel:
        """Cut the training windows, and fit the peer."""
        scenario, rate = fold.scenario, fold.scenario.sample_rate
        segments = [segment.centred() for segment in scenario.training_segments(library)]
        own = stream_spec(segments, self.profile)
        length = max(own.length, round(PEER_SECONDS * rate))
        step = max(own.step, length // self.peer.windows_per_length)
        windows = Windows(segments, WindowSpec(length, max(step, round(TRAINING_STEP_SECONDS * rate))))
        manifest = Manifest(
            classes=scenario.classes,
            channels=scenario.channels,
            units=windows.units,
            sample_rate=rate,
            window=WindowSpec(length, step),
            conditions=scenario.conditions,
            scenario=scenario.name,
            seed=seed,
        )
        return FittedPeer(self.peer(seed), manifest, windows, self.threads)


class FittedPeer(FittedModel):
    """A peer, fitted to training windows."""

    def __init__(self, peer: Peer, manifest: Manifest, windows: Windows, threads: int) -> None:
        self.manifest, self.trained_on = manifest, windows.intervals
        self._peer, self._threads = peer, threads
        self._features = _spectra(windows, manifest) if peer.reads == "spectra" else None
        with self._limited_threads():
            peer.fit(self._inputs(windows), windows.labels.numpy())

    def run(self, segments: Sequence[Segment]) -> Iterator[tuple[str, StreamTrace]]:
        """Classify the windows of a stream one by one."""
        windows = Windows([segment.centred() for segment in segments], self.manifest.window)
        with self._limited_threads():
            probabilities = self._peer.predict_proba(self._inputs(windows))
        yield (
            self._peer.name,
            StreamTrace(
                label=windows.labels.numpy(),
                stage=windows.stages.numpy(),
                probabilities=np.asarray(probabilities, dtype=np.float32),
                accepted=None,
                evidence={},
                batch_size=BATCH,
            ),
        )

    def _inputs(self, windows: Windows) -> FloatArray:
        """Return what the peer reads of every window."""
        parts = [self._read(x) for _, x in windows.batches(BATCH)]
        return np.asarray(torch.cat(parts).numpy())

    def _read(self, x: Tensor) -> Tensor:
        return x if self._features is None else self._features(x)

    def _limited_threads(self) -> AbstractContextManager[object]:
        """Keep scikit-learn from using all cores in every worker."""
        if not self._peer.packages:
            return nullcontext()
        limits = import_extra("threadpoolctl", extra="peers", purpose=f"peer {self._peer.name}").threadpool_limits
        limited: AbstractContextManager[object] = limits(self._threads)
        return limited


def stream_spec(segments: Sequence[Segment], profile: Profile) -> WindowSpec:
    """Return the windows of a stream that a model has, if it is trained on these segments under a profile."""
    return training_spec(segments, profile) if profile.default_objective == ENSEMBLE else profile.window


def frame_length(sample_rate: float) -> int:
    """Return the samples per frame: the longest power of two within a quarter of a second, between two limits.

    >>> frame_length(20_000), frame_length(2000), frame_length(99.3)
    (1024, 256, 32)
    """
    fitting = 1 << (max(1, int(PEER_SECONDS * sample_rate)).bit_length() - 1)
    return min(LONGEST_FRAME, max(SHORTEST_FRAME, fitting))


def _spectra(windows: Windows, manifest: Manifest) -> WindowFeatures:
    """Return averaged log spectra whose floor is that of the training windows."""
    frame = min(frame_length(manifest.sample_rate), manifest.window.length)
    # At a step of one, frames are half a frame apart, whatever the step of the windows: training and stream agree.
    spec = WindowSpec(manifest.window.length, 1)
    features = build_features(FeatureConfig("spectrum", frame), len(manifest.channels), spec)
    features.fit(windows.samples)
    return features
