"""Features of a window that are averages over short frames of it.

A window of about a second is cut into frames of a few hundredths of a second;
their spectra are averaged, and the logarithm of the average is the feature. It
scatters little, does not depend on where in the window an impact falls, and
turns a change of gain or load into a shift, which a linear model handles well.

Neighbouring windows share frames. Each frame is transformed once, and blocks of
frames are added once for all windows around them (:mod:`cgsa.nn.frame_sums`). The
features of a window are the same to the bit whether it comes alone or with its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import gcd, log2

import torch
from torch import Tensor, nn

from cgsa.data.windows import WindowSpec, underlying_samples
from cgsa.errors import ConfigError
from cgsa.nn.frame_sums import FrameLayout, RecentFrames, sums_over_frames

RELATIVE_FLOOR = 1e-8
"""Power below this share of a channel's mean power is noise of the converter, not of the machine."""
CROSS_LOADING = 1e-3
"""Share of the mean power that is added to the diagonal of a cross-spectral matrix before its logarithm."""
MAX_WIDTH = 2**20
"""Most features of one kind; no model with more fits into memory."""
ENVELOPE_FRAME, ENVELOPE_HOP = 16, 8
"""Samples over which one value of the envelope is measured, and from one value to the next."""

FIRST_BAND_LINE = 4
"""Spectral line, counted from 1, at which third octaves begin: below, a band would be narrower than a line."""
MOMENTS = 6
POWER = "power"
"""Name of the averaged power spectrum, which several kinds of features begin with."""
LEAST_RATIO = 1e-3
"""Added to ratios of moments, so that a dead channel has a logarithm."""


@dataclass(frozen=True)
class FeatureConfig:
    """Which features are taken from a window."""

    kind: str
    """A key of :data:`FEATURES`."""
    frame: int
    """Samples per frame; for envelopes, values of the envelope per frame."""
    stretched: bool = False
    """Whether there are also classifiers that are trained on copies as at other speeds; for envelopes only."""

    @property
    def name(self) -> str:
        """Such as ``spectrum 512``."""
        return f"{self.kind} {self.frame}"

    @property
    def envelope_bins(self) -> int:
        """Lines of an envelope: the upper half of its spectrum is noise."""
        return self.frame // 4


class WindowFeatures(nn.Module, ABC):
    """Base of the features; ``spec`` has the length of the windows and the step between them."""

    floor: Tensor
    """Least power of every channel that counts, (channels,)."""
    taper: Tensor

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__()
        self.channels, self.frame = channels, frame
        self._hop, self._shared = hop_of(frame, spec.step)
        self._block = max(1, spec.step // self._hop)
        """Frames that are added first: those that begin within one step of the windows."""
        self.out_features = 0
        self.register_buffer("floor", torch.zeros(channels))
        self.register_buffer("taper", torch.hann_window(frame))

    @property
    def hop(self) -> int:
        """Samples from one frame to the next; for envelopes, values of the envelope."""
        return self._hop

    @torch.no_grad()
    def fit(self, samples: Tensor) -> None:
        """Fit the floor to training samples, (channels, samples)."""
        power = samples.double().var(dim=1, correction=0) * self.taper.double().square().sum()
        self.floor.copy_((RELATIVE_FLOOR * power).clamp(min=torch.finfo(torch.float32).tiny))

    @abstractmethod
    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return the features of raw windows (windows, channels, length), as (windows, features).

        ``recent`` is what was computed of the windows before in a stream, which follows these already.
        """

    def _mean_over_frames(
        self,
        x: Tensor,
        transform: Callable[[Tensor], Tensor],
        recent: RecentFrames | None = None,
        name: str = "",
        per: int = 1,
    ) -> Tensor:
        """Return the mean over the frames of each window of ``transform(frames)``, (windows, channels, ...).

        ``transform`` gets frames (..., samples per frame) of every channel, the channels being the first or second
        dimension before, and returns one tensor per frame. ``name`` says what it computes, and a sample of ``x`` may
        be a value for ``per`` samples of the signal.
        """
        frames = (x.shape[2] - self.frame) // self._hop + 1
        shared = underlying_samples(x) if self._shared else None
        if shared is None or shared[1] % self._hop:
            every = transform(self._frames(x))
            total = sums_over_frames(every.flatten(0, 1), frames, self._block, 1, self._block)
            return total.reshape(*every.shape[:2], *every.shape[3:]) / frames
        samples, step = shared
        layout = FrameLayout(frames, self._block, len(x), step // self._hop)

        def of_frames(part: Tensor) -> Tensor:
            return transform(self._frames(part))

        if recent is None:
            total = layout.add_windows(*layout.add_blocks(of_frames(samples)))
        else:
            total = recent.sums(f"{name} {self.frame}", samples, layout, of_frames, hop=self._hop, per=per)
        return (total / frames).transpose(0, 1)

    def _power(self, frames: Tensor) -> Tensor:
        """Return the power of the lines of tapered frames."""
        lines = tapered_lines(frames, self.taper)
        return lines.real.square() + lines.imag.square()

    def _frames(self, samples: Tensor) -> Tensor:
        frames = samples.unfold(-1, self.frame, self._hop)
        # With a hop of 1 two dimensions have the same stride, and the order in which torch adds is not defined.
        return frames.contiguous() if self._hop == 1 else frames


class SpectrumFeatures(WindowFeatures):
    """Logarithm of the averaged power spectrum of every channel (Welch's method)."""

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__(channels, spec, frame)
        self.out_features = channels * (frame // 2)

    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return (windows, channels * bins)."""
        power = self._mean_over_frames(x, self._power, recent, POWER)
        return torch.log(power + self.floor[:, None]).flatten(1)


class CrossSpectrumFeatures(WindowFeatures):
    """Matrix logarithm of the averaged cross-spectral matrix of the channels.

    Its diagonal has the power of the channels, and the rest how they move
    together: coherence and phase. These depend on the fault and on where the
    force acts, and less than the power on speed and load.

    Frames should be a multiple of 8: then every matrix is aligned in memory as
    if it came alone, which the eigenvalues depend on in their last digits.
    """

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__(channels, spec, frame)
        self.out_features = channels**2 * (frame // 2)
        pairs = list(combinations(range(channels), 2))
        self._row, self._column = [row for row, _ in pairs], [column for _, column in pairs]

    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return (windows, bins * channels ** 2): the diagonals, then real and imaginary parts above them."""
        # Frames are averaged for each pair of channels; a window is a matrix per bin.
        mean = self._mean_over_frames(x, self._products, recent, "products")
        matrix = mean.transpose(1, 2).reshape(len(x), -1, self.channels, self.channels)
        level = matrix.diagonal(dim1=-2, dim2=-1).real
        loading = CROSS_LOADING * level.mean(dim=-1, keepdim=True) + self.floor
        values, vectors = torch.linalg.eigh(matrix + torch.diag_embed(loading).to(matrix.dtype))
        logs = values.clamp(min=torch.finfo(torch.float32).tiny).log()
        result = (vectors * logs[..., None, :].to(vectors.dtype)) @ vectors.mH
        beside = result[..., self._row, self._column]
        parts = (result.diagonal(dim1=-2, dim2=-1).real, beside.real, beside.imag)
        return torch.cat([part.flatten(1) for part in parts], dim=1)

    def _products(self, frames: Tensor) -> Tensor:
        """Return the products of all pairs of channels in place of the channels."""
        lines = tapered_lines(frames, self.taper)
        first = lines.ndim - 3
        products = lines.unsqueeze(first + 1) * lines.unsqueeze(first).conj()
        return products.flatten(first, first + 1)


class EnvelopeFeatures(WindowFeatures):
    """Logarithm of the averaged spectrum of the envelope, relative to its mean.

    The envelope is the amplitude of the signal above a sixteenth of the sample
    rate. Its spectrum shows how often impacts come, whatever resonance they
    excite and however loud they are, so it carries over to another unit.
    """

    first_line = 0
    """First line of the short frames that counts, as an index without the line at zero."""

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__(channels, spec, frame)
        self._hop, self._shared = hop_of(frame, spec.step // ENVELOPE_HOP, overlap=4)
        self._block = max(1, spec.step // ENVELOPE_HOP // self._hop)
        self._shared = self._shared and spec.step % ENVELOPE_HOP == 0
        self.bins = FeatureConfig("envelope", frame).envelope_bins
        self.out_features = channels * self.bins
        self.register_buffer("short_taper", torch.hann_window(ENVELOPE_FRAME))

    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return (windows, channels * bins)."""
        name = f"envelope from line {self.first_line}"
        envelopes = self._envelopes(x, recent, name)
        mean = self._mean_over_frames(envelopes, self._power_and_level, recent, f"power of {name}", ENVELOPE_HOP)
        power, level = mean[..., :-1], mean[..., -1:]
        # The square of the level of a dead channel is too small for single precision.
        least = (RELATIVE_FLOOR * level.square()).clamp(min=torch.finfo(torch.float32).tiny)
        return (torch.log(power + least) - 2 * torch.log(level)).flatten(1)

    def _envelopes(self, x: Tensor, recent: RecentFrames | None, name: str) -> Tensor:
        """Return the envelope of every window; windows that share samples share their envelope."""
        shared = underlying_samples(x) if self._shared else None
        if shared is None or shared[1] % ENVELOPE_HOP:
            return self._envelope(x)
        samples, step = shared
        envelope = (
            self._envelope(samples) if recent is None else recent.values(name, samples, ENVELOPE_HOP, self._envelope)
        )
        length = (x.shape[2] - ENVELOPE_FRAME) // ENVELOPE_HOP + 1
        return envelope.unfold(1, length, step // ENVELOPE_HOP).transpose(0, 1)[: len(x)]

    def _envelope(self, samples: Tensor) -> Tensor:
        lines = tapered_lines(samples.unfold(-1, ENVELOPE_FRAME, ENVELOPE_HOP), self.get_buffer("short_taper"))
        power = (lines.real.square() + lines.imag.square())[..., self.first_line :].sum(dim=-1)
        return torch.sqrt(power + self.floor[:, None])

    def _power_and_level(self, frames: Tensor) -> Tensor:
        lines = tapered_lines(frames, self.taper)[..., : self.bins]
        return torch.cat([lines.real.square() + lines.imag.square(), frames.mean(dim=-1, keepdim=True)], dim=-1)


class HighEnvelopeFeatures(EnvelopeFeatures):
    """The same above an eighth of the sample rate, where shafts and gears are quiet."""

    first_line = 1


class CepstrumFeatures(WindowFeatures):
    """Cepstrum of every channel: the spectrum of the logarithm of the averaged power spectrum.

    Its first values are the shape of the spectrum in broad strokes, the later ones how regularly its lines follow each
    other: families of harmonics and sidebands.
    """

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__(channels, spec, frame)
        self.out_features = channels * (frame // 2)

    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return (windows, channels * values)."""
        logs = torch.log(self._mean_over_frames(x, self._power, recent, POWER) + self.floor[:, None])
        # The line at zero is left out of the power; its neighbour stands in for it.
        cepstrum: Tensor = torch.fft.irfft(torch.cat([logs[..., :1], logs], dim=-1))
        return cepstrum[..., : self.frame // 2].flatten(1)


class StatisticsFeatures(WindowFeatures):
    """What a monitor without a model reads: level, kurtosis, crest and shape factors, and levels in third octaves.

    Moments are those of the samples and of their differences, in which impacts stand out.
    """

    def __init__(self, channels: int, spec: WindowSpec, frame: int) -> None:
        super().__init__(channels, spec, frame)
        self.bands = third_octaves(frame // 2)
        self.out_features = channels * (2 * MOMENTS + len(self.bands))

    def forward(self, x: Tensor, recent: RecentFrames | None = None) -> Tensor:
        """Return (windows, channels * statistics)."""
        # In one order of memory, so that sums over bands add in one order, too.
        power = self._mean_over_frames(x, self._power, recent, POWER).contiguous()
        moments = self._mean_over_frames(x, self._both_moments, recent, "moments").contiguous()
        least = self.floor / self.taper.square().sum()
        samples, differences = moments[..., :MOMENTS], moments[..., MOMENTS:]
        levels = [power[..., first:end].mean(dim=-1, keepdim=True) for first, end in self.bands]
        bands = [torch.log(level + self.floor[:, None]) for level in levels]
        parts = [_shape_factors(samples, least), _shape_factors(differences, least), *bands]
        return torch.cat(parts, dim=-1).flatten(1)

    def _both_moments(self, frames: Tensor) -> Tensor:
        centred = (frames - frames.mean(dim=-1, keepdim=True)).contiguous()
        return torch.cat([_moments(centred), _moments(centred.diff(dim=-1))], dim=-1)


def third_octaves(lines: int) -> list[tuple[int, int]]:
    """Return the first line and the one after the last of every third octave from the fourth line on.

    >>> third_octaves(8)
    [(3, 4), (4, 5), (5, 7)]
    """
    count = int(3 * log2(max(1.0, lines / FIRST_BAND_LINE)))
    edges = [round(FIRST_BAND_LINE * 2 ** (number / 3)) - 1 for number in range(count + 1)]
    return list(pairwise(edges))


def _moments(samples: Tensor) -> Tensor:
    """Return mean square, mean size, squared mean root, third and fourth moment and peak, (..., 6)."""
    size = samples.abs()
    square = size.square()
    values = (square, size, size.sqrt(), square * samples, square.square())
    return torch.stack([*(value.mean(dim=-1) for value in values), size.amax(dim=-1)], dim=-1)


def _shape_factors(moments: Tensor, least: Tensor) -> Tensor:
    """Return the logarithm of the level, and the shape of the distribution whatever the level, (..., 6)."""
    square, size, root, third, fourth, peak = moments.unbind(dim=-1)
    level = (square + least).clamp(min=torch.finfo(torch.float32).tiny)
    rms = level.sqrt()
    # Divided twice: the square of the level of a dead channel is too small for single precision.
    ratios = (fourth / level / level, peak / rms, size / rms, root.square() / rms)
    logs = [torch.log(ratio + LEAST_RATIO) for ratio in ratios]
    return torch.stack([torch.log(level), *logs, third / level / rms], dim=-1)


ENVELOPES = ("envelope", "high_envelope")
FEATURES: dict[str, Callable[[int, WindowSpec, int], WindowFeatures]] = {
    "spectrum": SpectrumFeatures,
    "cross_spectrum": CrossSpectrumFeatures,
    "envelope": EnvelopeFeatures,
    "high_envelope": HighEnvelopeFeatures,
    "cepstrum": CepstrumFeatures,
    "statistics": StatisticsFeatures,
}


def build_features(config: FeatureConfig, channels: int, spec: WindowSpec) -> WindowFeatures:
    """Return the features that a configuration describes."""
    if config.kind not in FEATURES:
        raise ConfigError(f"features {config.kind!r}; expected one of {', '.join(FEATURES)}")
    if config.stretched and config.kind not in ENVELOPES:
        raise ConfigError(f"stretched {config.kind}; expected one of {', '.join(ENVELOPES)}")
    available = spec.length
    if config.kind in ENVELOPES:
        available = (spec.length - ENVELOPE_FRAME) // ENVELOPE_HOP + 1
    if not 4 <= config.frame <= available:
        raise ConfigError(
            f"frames of {config.frame} for {config.kind} in windows of {spec.length} samples; expected 4 to {available}"
        )
    # Checked before anything is built: a manifest may ask for anything.
    if channels ** (2 if config.kind == "cross_spectrum" else 1) * (config.frame // 2) > MAX_WIDTH:
        raise ConfigError(f"{config.name} of {channels} channels: more than {MAX_WIDTH:,} features are refused")
    return FEATURES[config.kind](channels, spec, config.frame)


def tapered_lines(frames: Tensor, taper: Tensor) -> Tensor:
    """Return the spectral lines of tapered frames without their mean; the line at zero is left out."""
    lines: Tensor = torch.fft.rfft((frames - frames.mean(dim=-1, keepdim=True)) * taper)
    return lines[..., 1:]


def hop_of(frame: int, step: int, *, overlap: int = 2) -> tuple[int, bool]:
    """Return the samples from one frame to the next, and whether windows at this step share their frames."""
    usual = max(1, frame // overlap)
    common = gcd(usual, step) if step else 1
    return (common, True) if 4 * common >= usual else (usual, False)
