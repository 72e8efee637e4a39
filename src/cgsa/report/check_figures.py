"""Figures of a check of the data: levels by recording, coverage, spectra, and recordings that share samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cgsa.check.bands import channels_with_spectrum, spectrum_of
from cgsa.check.checks.coverage import coverage_counts
from cgsa.check.checks.doubled import overlapping_pairs
from cgsa.check.data_set import DataSummary
from cgsa.check.overlaps import Overlap, read_samples
from cgsa.report.figures import COLOURS

LEVEL_CAPTION = (
    "Level (RMS about the mean) of every recording, in the order of the set; a colour per class. Recordings that a "
    "warning is about have a ring."
)
COVERAGE_CAPTION = "Number of recordings of each class (columns) at each operating point (rows); a zero is a hole."
SPECTRUM_CAPTION = (
    "Mean spectrum of the recordings of each class, and of the recordings that a warning about the spectrum is about "
    "(dashed)."
)
OVERLAP_CAPTION = "The stretches that both recordings share, each divided by its standard deviation."
SPECTRAL_CHECKS = ("sample_rate", "swapped_channels", "unit_slip")
MOST_CHANNELS, MOST_POINTS, MOST_DRAWN, SHOWN_SAMPLES = 6, 40, 4, 400


def level_figure(data: DataSummary, suspicious: frozenset[str]) -> Figure:
    """Draw the level of every recording, one panel per channel."""
    # Names of classes and channels come from outside: a dollar sign must not start a formula.
    with rc_context({"text.parse_math": False}):
        channels = data.channels[:MOST_CHANNELS]
        figure = Figure(figsize=(10, 0.8 + 1.5 * len(channels)), layout="constrained")
        axes = figure.subplots(len(channels), 1, sharex=True, squeeze=False)[:, 0]
        places = {one.name: place for place, one in enumerate(data.readable)}
        for axis, name in zip(axes, channels, strict=True):
            live = data.live_channels(name)
            for label, colour in zip(data.classes or ("",), _colours(data.classes), strict=True):
                own = [one for one in live if one.recording.label == label]
                axis.plot(
                    [places[one.recording.name] for one in own],
                    [one.summary.statistics.deviation for one in own],
                    ".",
                    color=colour,
                    label=label,
                )
            ringed = [one for one in live if one.recording.name in suspicious]
            axis.scatter(
                [places[one.recording.name] for one in ringed],
                [one.summary.statistics.deviation for one in ringed],
                s=60,
                facecolors="none",
                edgecolors="#d1495b",
            )
            axis.set_yscale("log")
            _name_levels(axis)
            axis.set_ylabel(name, fontsize=8)
        axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False, fontsize=8)
        axes[-1].set_xlabel("recording")
    return figure


def coverage_figure(data: DataSummary) -> Figure:
    """Draw the number of recordings of each class at each operating point."""
    counts, points = coverage_counts(data), data.points[:MOST_POINTS]
    table = np.array([[counts.get((label, point), 0) for label in data.classes] for point in points])
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(4 + 0.8 * len(data.classes), 1.2 + 0.3 * len(points)), layout="constrained")
        axis = figure.subplots()
        axis.imshow(table > 0, cmap="Greens", vmin=0, vmax=2, aspect="auto")
        for row, column in np.ndindex(table.shape):
            colour = "black" if table[row, column] else "#d1495b"
            axis.text(column, row, str(table[row, column]), ha="center", va="center", fontsize=7, color=colour)
        axis.set_xticks(range(len(data.classes)), data.classes, rotation=45, ha="right", fontsize=8)
        axis.set_yticks(range(len(points)), points, fontsize=8)
    return figure


def spectrum_figure(data: DataSummary, suspicious: frozenset[str]) -> Figure:
    """Draw the mean spectrum of each class and those of suspicious recordings, one panel per channel."""
    with rc_context({"text.parse_math": False}):
        channels = data.channels[:MOST_CHANNELS]
        figure = Figure(figsize=(10, 0.8 + 1.9 * len(channels)), layout="constrained")
        axes = figure.subplots(len(channels), 1, squeeze=False)[:, 0]
        for axis, name in zip(axes, channels, strict=True):
            live = channels_with_spectrum(data, name)
            for label, colour in zip(data.classes or ("",), _colours(data.classes), strict=True):
                own = [one for one in live if one.recording.label == label]
                powers = [spectrum_of(one).power for one in own]
                if powers and len({len(power) for power in powers}) == 1:
                    step = spectrum_of(own[0]).step
                    axis.semilogy(
                        np.arange(1, len(powers[0])) * step,
                        np.exp(np.mean(np.log(np.maximum(powers, 1e-300)), axis=0))[1:],
                        color=colour,
                        linewidth=0.8,
                        label=label,
                    )
            drawn = [one for one in live if one.recording.name in suspicious][:MOST_DRAWN]
            for one in drawn:
                found = spectrum_of(one)
                frequencies = np.arange(1, len(found.power)) * found.step
                axis.semilogy(
                    frequencies, found.power[1:], "--", color="black", linewidth=0.7, label=one.recording.name
                )
            _name_levels(axis)
            axis.set_ylabel(name, fontsize=8)
        axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=7)
        axes[-1].set_xlabel("frequency in Hz")
    return figure


def overlap_figure(data: DataSummary) -> Figure:
    """Draw the samples that recordings share, one panel per pair."""
    pairs = list(overlapping_pairs(data))[:MOST_DRAWN]
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(10, 0.6 + 1.5 * len(pairs)), layout="constrained")
        axes = figure.subplots(len(pairs), 1, squeeze=False)[:, 0]
        for axis, overlap in zip(axes, pairs, strict=True):
            _draw_overlap(axis, data, overlap)
        axes[-1].set_xlabel("sample of the stretch")
    return figure


def _draw_overlap(axis: Axes, data: DataSummary, overlap: Overlap) -> None:
    sides = zip((overlap.first, overlap.second), (COLOURS[0], COLOURS[1]), (2.4, 0.9), strict=True)
    for stretch, colour, width in sides:
        one = data.readable[stretch.recording]
        begin = max(0, stretch.begin)
        samples = read_samples(one.recording, stretch.channel, begin, min(begin + SHOWN_SAMPLES, stretch.end))
        scaled = (samples - samples.mean()) / max(float(samples.std()), 1e-300)
        sign = -1 if overlap.scale < 0 and stretch is overlap.second else 1
        axis.plot(sign * scaled, color=colour, linewidth=width, label=f"{one.name} from {one.time(begin):.4g} s")
    axis.legend(loc="upper right", fontsize=7)


def _name_levels(axis: Axes) -> None:
    """Name 1, 2 and 5 of every decade, which do not overlap in a flat panel."""
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(axis="y", labelsize=8)


def _colours(classes: Sequence[str]) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(max(1, len(classes)))]
