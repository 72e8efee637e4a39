"""The features of :mod:`cgsa.nn.spectra` as parts of a graph.

Input is the signal of a batch, from which windows are cut at the step of the model: frames that windows share are
transformed once. If the frames of neighbouring windows do not coincide, windows are cut first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import torch

from cgsa.data.windows import WindowSpec
from cgsa.edge.graph import GraphValue
from cgsa.edge.hermitian import hermitian_logarithm
from cgsa.errors import BundleError
from cgsa.nn.spectra import (
    CROSS_LOADING,
    ENVELOPE_FRAME,
    ENVELOPE_HOP,
    LEAST_RATIO,
    MOMENTS,
    RELATIVE_FLOOR,
    CepstrumFeatures,
    CrossSpectrumFeatures,
    EnvelopeFeatures,
    SpectrumFeatures,
    StatisticsFeatures,
    WindowFeatures,
)

TINY = float(torch.finfo(torch.float32).tiny)


@dataclass(frozen=True, eq=False)
class WindowedSignal:
    """Signals (channels, signals, samples) and how windows lie in each of them."""

    values: GraphValue
    length: int
    """Samples of a window."""
    step: int
    """Samples from one window to the next; 0 if every signal is one window."""
    windows: GraphValue
    """Number of windows."""

    def frames(self, frame: int, hop: int) -> GraphValue:
        """Return all frames of the signals, (channels, signals, frames, samples)."""
        graph = self.values.graph
        count = graph.op("Div", self.values.length(2) - np.array(frame), np.array(hop)) + np.array(1)
        begin = (graph.numbers(count) * np.array(hop)).expand(1)
        return self.values.take(begin + np.arange(frame)[None], axis=2)

    def mean_over_windows(self, frames: GraphValue, frame: int, hop: int) -> GraphValue:
        """Return the mean over the frames of each window, (channels, windows, ...); frames are on their third axis."""
        if not self.step:
            return frames.mean(2)
        inside = np.arange((self.length - frame) // hop + 1)[None]
        first = self.values.graph.numbers(self.windows) * np.array(self.step // hop)
        index = first.expand(1) + inside
        # The only signal is dropped: its windows take its place.
        return frames.take(index, axis=2).mean(3).take(np.array(0), axis=1)


def cut_windows(samples: GraphValue, spec: WindowSpec) -> GraphValue:
    """Return the windows of samples (channels, samples), as (channels, windows, length)."""
    begin = (samples.graph.numbers(window_count(samples, spec)) * np.array(spec.step)).expand(1)
    return samples.take(begin + np.arange(spec.length)[None], axis=1)


def window_count(samples: GraphValue, spec: WindowSpec) -> GraphValue:
    """Return the number of windows in samples (channels, samples)."""
    return samples.graph.op("Div", samples.length(1) - np.array(spec.length), np.array(spec.step)) + np.array(1)


def feature_graph(samples: GraphValue, features: WindowFeatures, spec: WindowSpec) -> GraphValue:
    """Return the features of the windows of samples (channels, samples), as (windows, features)."""
    writers: dict[type[WindowFeatures], Callable[[WindowedSignal, WindowFeatures], GraphValue]] = {
        SpectrumFeatures: _spectrum,
        CrossSpectrumFeatures: _cross_spectrum,
        EnvelopeFeatures: _envelope,
        CepstrumFeatures: _cepstrum,
        StatisticsFeatures: _statistics,
    }
    writer = next((one for kind, one in writers.items() if isinstance(features, kind)), None)
    if writer is None:
        raise BundleError(f"features {type(features).__name__} cannot be exported; expected those that come with cgsa")
    windows = window_count(samples, spec)
    unit = ENVELOPE_HOP if isinstance(features, EnvelopeFeatures) else 1
    if spec.step % (unit * features.hop) == 0:
        signal = WindowedSignal(samples.expand(1), spec.length, spec.step, windows)
    else:
        signal = WindowedSignal(cut_windows(samples, spec), spec.length, 0, windows)
    return writer(signal, features)


def tapered_lines_graph(frames: GraphValue, taper: torch.Tensor) -> tuple[GraphValue, GraphValue]:
    """Return real and imaginary parts of the lines of tapered frames without their mean, without the line at zero."""
    graph = frames.graph
    lines = graph.op("DFT", ((frames - frames.mean(-1, keep=True)) * taper).expand(-1), None, np.array(-2), onesided=1)
    beyond = lines.part(-2, 1, np.iinfo(np.int64).max)
    return beyond.take(np.array(0), axis=-1), beyond.take(np.array(1), axis=-1)


def _power(frames: GraphValue, taper: torch.Tensor) -> GraphValue:
    real, imaginary = tapered_lines_graph(frames, taper)
    return real * real + imaginary * imaginary


def _rows(values: GraphValue) -> GraphValue:
    """Return (channels, windows, values) as one row per window."""
    return values.transpose(1, 0, 2).flatten()


def _spectrum(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    return _rows(_log_power(signal, features))


def _log_power(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    power = _power(signal.frames(features.frame, features.hop), features.taper)
    mean = signal.mean_over_windows(power, features.frame, features.hop)
    return (mean + features.floor[:, None, None]).log()


def _cepstrum(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    logs = _log_power(signal, features)
    lines = features.frame // 2
    # The inverse transform of a real even spectrum is the real part of its transform.
    every = [0, *range(lines), *range(lines - 2, -1, -1)]
    transformed = logs.graph.op("DFT", logs.take(every, axis=2).expand(-1), None, np.array(-2), onesided=1)
    values = transformed.take(np.array(0), axis=-1).part(-1, 0, lines)
    return _rows(values / float(2 * lines))


def _cross_spectrum(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    real, imaginary = tapered_lines_graph(signal.frames(features.frame, features.hop), features.taper)
    channels, graph = features.channels, real.graph
    if channels == 1:
        raise BundleError("a cross-spectrum of one channel cannot be exported; expected several channels")
    upper = list(combinations_with_replacement(range(channels), 2))
    (one, one_imaginary), (other, other_imaginary) = (
        (real.take(index, axis=0), imaginary.take(index, axis=0)) for index in zip(*upper, strict=True)
    )
    products = (one * other + one_imaginary * other_imaginary, one_imaginary * other - one * other_imaginary)
    means = [signal.mean_over_windows(part, features.frame, features.hop) for part in products]
    # Matrices of all windows and lines side by side, (channels, channels, windows * lines).
    index = [upper.index((min(pair), max(pair))) for pair in product(range(channels), repeat=2)]
    sign = np.array([np.sign(second - first) for first, second in product(range(channels), repeat=2)], dtype=np.float64)
    lines = features.frame // 2
    level = means[0].take([upper.index((row, row)) for row in range(channels)], axis=0)
    loading = level.mean(0, keep=True) * CROSS_LOADING + features.floor[:, None, None]
    identity = np.eye(channels)[:, :, None, None]
    shape = (channels, channels, -1, lines)
    full = means[0].take(index, axis=0).reshape(*shape) + loading.expand(0) * identity
    skew = (means[1].take(index, axis=0) * sign[:, None, None]).reshape(*shape)
    pairs = list(combinations(range(channels), 2))
    matrix = tuple(part.reshape(channels, channels, -1) for part in (full, skew))
    found = hermitian_logarithm(graph, (matrix[0], matrix[1]), channels, pairs, TINY)
    parts = [
        part.reshape(count, -1, lines) for part, count in zip(found, (channels, len(pairs), len(pairs)), strict=True)
    ]
    # Torch lists bins first, then channels or pairs.
    return graph.concat([part.transpose(1, 2, 0).flatten() for part in parts], axis=1)


def _envelope(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    if not isinstance(features, EnvelopeFeatures):
        raise TypeError("expected features of the envelope")
    short = signal.frames(ENVELOPE_FRAME, ENVELOPE_HOP)
    power = _power(short, features.get_buffer("short_taper")).part(-1, features.first_line, ENVELOPE_FRAME)
    envelope = (power.reduce("Sum", -1) + features.floor[:, None, None]).sqrt()
    length = (signal.length - ENVELOPE_FRAME) // ENVELOPE_HOP + 1
    around = WindowedSignal(envelope, length, signal.step // ENVELOPE_HOP, signal.windows)
    frames = around.frames(features.frame, features.hop)
    lines = _power(frames, features.taper).part(-1, 0, features.bins)
    mean = around.mean_over_windows(lines, features.frame, features.hop)
    level = around.mean_over_windows(frames.mean(-1, keep=True), features.frame, features.hop)
    least = (level * level * RELATIVE_FLOOR).at_least(TINY)
    return _rows((mean + least).log() - level.log() * 2.0)


def _statistics(signal: WindowedSignal, features: WindowFeatures) -> GraphValue:
    if not isinstance(features, StatisticsFeatures):
        raise TypeError("expected statistics")
    frames = signal.frames(features.frame, features.hop)
    graph = frames.graph
    centred = frames - frames.mean(-1, keep=True)
    differences = centred.part(-1, 1, features.frame) - centred.part(-1, 0, features.frame - 1)
    parts = [_moments(centred), _moments(differences), _power(frames, features.taper)]
    mean = signal.mean_over_windows(graph.concat(parts, axis=-1), features.frame, features.hop)
    least = (features.floor.double() / features.taper.double().square().sum())[:, None, None]
    factors = [_shape_factors(mean.part(-1, first, first + MOMENTS), least) for first in (0, MOMENTS)]
    lines = 2 * MOMENTS
    bands = [mean.part(-1, lines + first, lines + end).mean(-1, keep=True) for first, end in features.bands]
    logs = [(band + features.floor[:, None, None]).log() for band in bands]
    return _rows(graph.concat([*factors, *logs], axis=-1))


def _moments(samples: GraphValue) -> GraphValue:
    """Return mean square, mean size, squared mean root, third and fourth moment and peak, (..., 6)."""
    size = samples.size()
    square = size * size
    values = (square, size, size.sqrt(), square * samples, square * square)
    means = [value.mean(-1, keep=True) for value in values]
    return samples.graph.concat([*means, size.reduce("Max", -1, keep=True)], axis=-1)


def _shape_factors(moments: GraphValue, least: torch.Tensor) -> GraphValue:
    square, size, root, third, fourth, peak = (moments.part(-1, place, place + 1) for place in range(MOMENTS))
    level = (square + least).at_least(TINY)
    rms = level.sqrt()
    ratios = (fourth / level / level, peak / rms, size / rms, root * root / rms)
    logs = [(ratio + LEAST_RATIO).log() for ratio in ratios]
    return moments.graph.concat([level.log(), *logs, third / level / rms], axis=-1)
