"""How clearly every line of a spectrum stands above its surroundings and above the healthy machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import maximum_filter1d

from cgsa.explain.spectra import AveragedSpectrum, DoubleArray, decibels

FLOOR_WIDTH = 15.0
"""Hz to either side over which the median is the local noise floor..."""
LEAST_FLOOR_LINES = 8
"""...but at least so many lines."""
REACH = 2
"""Lines to either side within which a healthy line may have been, as with a small change of speed."""
LEAST, MOST = -1.0, 12.0
"""Bounds of the evidence: one enormous line does not replace a family, and a missing one does not hide it."""
LEAST_POWER = 1e-30
MEDIAN_TO_SIGMA = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""


@dataclass(frozen=True, eq=False)
class SpectrumComparison:
    """A spectrum of an interval, those of the healthy machine, and what is new."""

    current: AveragedSpectrum
    healthy: tuple[AveragedSpectrum, ...]
    evidence: DoubleArray
    """From :func:`line_evidence`."""

    def rise(self, channel: int, line: int) -> float:
        """Return by how much the highest line around one rose in dB, above its surroundings without healthy spectra."""
        near = slice(max(0, line - 1), line + 2)
        now = self.current.power[channel][near].max()
        before = [one.power[channel][near].max() for one in self.healthy] or [np.median(self.current.power[channel])]
        return float(np.subtract(*decibels(np.array([now, max(before)]))))


def compare_spectra(
    current: AveragedSpectrum, healthy: Sequence[AveragedSpectrum], *, relative: bool = False
) -> SpectrumComparison:
    """Return spectra with the evidence of their lines; see :func:`line_evidence`."""
    return SpectrumComparison(current, tuple(healthy), line_evidence(current, healthy, relative=relative))


def pooled_comparison(comparisons: Sequence[SpectrumComparison]) -> SpectrumComparison:
    """Return the first of several comparisons with the same lines, with the mean evidence of all."""
    return replace(comparisons[0], evidence=np.mean([one.evidence for one in comparisons], axis=0))


def line_evidence(
    current: AveragedSpectrum, healthy: Sequence[AveragedSpectrum], *, relative: bool = False
) -> DoubleArray:
    """Return the evidence of every line that it is new, in standard deviations of the noise, (channels, lines).

    It is the lesser of two: by how much the line stands above its local noise floor, and by how much above the highest
    of all healthy spectra around it. Without healthy spectra the first one counts alone.

    Parameters
    ----------
    current, healthy
        Spectra with the same lines.
    relative
        Whether levels as a whole mean nothing, as in envelopes: then lines are compared relative to their floors.
    """
    logs = _logs(current)
    above_floor = _in_deviations(logs, logs, current.step)
    if not healthy:
        return np.clip(above_floor, LEAST, MOST)
    highest = np.max([_logs(one) for one in healthy], axis=0)
    change = logs - highest
    if relative:
        return np.clip(np.minimum(above_floor, _in_deviations(change, change, current.step)), LEAST, MOST)
    around = maximum_filter1d(highest, 2 * REACH + 1, axis=1)
    risen = (logs - around) / _deviation(change - noise_floor(change, current.step))
    return np.clip(np.minimum(above_floor, risen), LEAST, MOST)


def noise_floor(logs: DoubleArray, step: float) -> DoubleArray:
    """Return the local noise floor of a logarithmic spectrum: medians around every few lines, joined by lines."""
    reach = min(max(LEAST_FLOOR_LINES, round(FLOOR_WIDTH / step)), (logs.shape[1] - 1) // 2)
    if reach < 1:
        return np.median(logs, axis=1, keepdims=True) + np.zeros_like(logs)
    centres = np.arange(reach, logs.shape[1] - reach, max(1, reach // 2))
    medians = np.median(sliding_window_view(logs, 2 * reach + 1, axis=1)[:, centres - reach], axis=2)
    lines = np.arange(logs.shape[1])
    return np.stack([np.interp(lines, centres, row) for row in medians])


def _in_deviations(values: DoubleArray, floor_of: DoubleArray, step: float) -> DoubleArray:
    above = values - noise_floor(floor_of, step)
    return above / _deviation(above)


def _deviation(values: DoubleArray) -> DoubleArray:
    """Return the standard deviation of the noise in every row, whatever lines there are in it."""
    spread = MEDIAN_TO_SIGMA * np.median(np.abs(values), axis=1, keepdims=True)
    return np.where(spread > 0, spread, 1.0)


def _logs(spectrum: AveragedSpectrum) -> DoubleArray:
    return np.asarray(np.log(np.maximum(spectrum.power, LEAST_POWER)))
