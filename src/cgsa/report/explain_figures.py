"""Pictures of an explanation: spectra before and after with named lines, envelope, waterfall, contributions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.explain.contributions import Contributions
from cgsa.explain.explanation import ExplainedFamily, ExplainedSpectra
from cgsa.explain.spectra import AveragedSpectrum, decibels, waterfall
from cgsa.report.figures import COLOURS

MAX_COLUMNS = 1600
"""Points of a curve; the largest of neighbours is kept, so that no line is lost."""
MARGIN = 1.25
"""The picture ends this far above the highest named line."""
SHOWN_BANDS = 15
SPECTRUM_CAPTION = (
    "Amplitude spectrum of the channel that speaks most: the healthy machine in grey, the interval in blue. Dashed "
    "lines are those that the most telling family names."
)
ENVELOPE_CAPTION = "Envelope spectrum: how often impacts come. Healthy in grey, the interval in blue."
WATERFALL_CAPTION = "Spectrum over the time of the interval; bright is loud."
CONTRIBUTION_CAPTION = (
    "By how much every channel and band speaks for the class against healthy, more than in the healthy machine."
)


def compared_spectra_figure(spectra: ExplainedSpectra, family: ExplainedFamily | None, *, envelope: bool) -> Figure:
    """Draw the spectrum of a channel before and after, with the lines of a family if they are in this kind of one."""
    comparison = spectra.envelope if envelope else spectra.plain
    current, healthy = comparison.current, comparison.healthy
    channel = 0 if family is None else spectra.channels.index(family.channel)
    named = () if family is None or (family.domain == "envelope") != envelope else family.lines
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axis = figure.subplots()
    end = current.frequencies[-1]
    if named:
        end = min(end, MARGIN * max(one.frequency for one in named))
    for number, one in enumerate(healthy):
        _curve(axis, one, channel, end, colour="#9a9a9a", label="healthy" if number == 0 else None)
    _curve(axis, current, channel, end, colour=COLOURS[0], label="interval")
    for number, line in enumerate(named):
        axis.axvline(line.frequency, color=COLOURS[1], linestyle="--", linewidth=0.8)
        height = 0.97 - 0.09 * (number % 4)
        place = axis.get_xaxis_transform()
        axis.text(line.frequency, height, f" {line.name}", color=COLOURS[1], fontsize=8, transform=place, va="top")
    unit = "squared envelope over its mean" if envelope else spectra.units[channel]
    axis.set_xlabel("frequency in Hz")
    axis.set_ylabel(f"dB re 1 {unit}" if not envelope else f"dB, {unit}")
    axis.set_title(spectra.channels[channel], fontsize=10)
    axis.set_xlim(0, end)
    axis.legend(loc="lower left", fontsize=8)
    _grid(axis)
    return figure


def waterfall_figure(spectra: ExplainedSpectra, channel: str) -> Figure:
    """Draw the spectra of a channel over time."""
    found = waterfall(spectra.signal[spectra.channels.index(channel)], spectra.rate)
    levels = decibels(found.power)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axis = figure.subplots()
    extent = (
        0.0,
        found.step * levels.shape[1],
        float(found.times[0]),
        float(max(found.times[-1], found.times[0] + 1e-3)),
    )
    low, high = np.percentile(levels, (20, 99.8))
    axis.imshow(levels, origin="lower", aspect="auto", extent=extent, vmin=low, vmax=high, cmap="viridis")
    axis.set_xlabel("frequency in Hz")
    axis.set_ylabel("time in s")
    axis.set_title(channel, fontsize=10)
    return figure


def contribution_figure(found: Contributions) -> Figure:
    """Draw the largest contributions of channels and bands, for and against the class."""
    largest = sorted(found.bands, key=lambda one: -abs(one.value))[:SHOWN_BANDS][::-1]
    figure = Figure(figsize=(10, 1 + 0.28 * len(largest)), layout="constrained")
    axis = figure.subplots()
    colours = [COLOURS[1] if one.value > 0 else COLOURS[2] for one in largest]
    axis.barh([one.name for one in largest], [one.value for one in largest], color=colours)
    axis.set_xlabel(f"contribution to {found.label}")
    axis.tick_params(axis="y", labelsize=8)
    _grid(axis)
    return figure


def _curve(axis: Axes, spectrum: AveragedSpectrum, channel: int, end: float, *, colour: str, label: str | None) -> None:
    """Draw a spectrum up to a frequency; of neighbours that share a column, the largest counts."""
    count = max(2, min(spectrum.power.shape[1], int(end / spectrum.step) + 1))
    levels, frequency = spectrum.decibels[channel, 1:count], spectrum.frequencies[1:count]
    merged = -(-len(levels) // MAX_COLUMNS)
    edges = np.arange(0, len(levels), merged)
    levels = np.maximum.reduceat(levels, edges)
    axis.plot(frequency[np.minimum(edges + merged // 2, len(frequency) - 1)], levels, color=colour, label=label, lw=0.9)


def _grid(axis: Axes) -> None:
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)
