"""The page of an explanation: which lines, bands and channels spoke, with pictures."""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.explain.contributions import Contributions
from cgsa.explain.explanation import ExplainedFamily, ExplainedSpectra, Explanation
from cgsa.explain.peaks import ChangedPeak
from cgsa.report.explain_figures import (
    CONTRIBUTION_CAPTION,
    ENVELOPE_CAPTION,
    SPECTRUM_CAPTION,
    WATERFALL_CAPTION,
    compared_spectra_figure,
    contribution_figure,
    waterfall_figure,
)
from cgsa.report.figures import to_svg
from cgsa.report.page import HtmlPage, render_page

FAMILY_HEADER = ("lines", "speak", "strength", "by chance", "channel", "clearest lines", "like")
PEAK_HEADER = ("channel", "Hz", "change in dB", "evidence", "name")
BAND_HEADER = ("channel", "band in Hz", "change in dB", "beyond healthy scatter in dB")
SHOWN_PEAKS, SHOWN_BANDS = 12, 10


def explain_page(
    explanation: Explanation, spectra: ExplainedSpectra, found: Contributions | None, commands: Sequence[str] = ()
) -> HtmlPage:
    """Return the page."""
    families = explanation.families
    channel = families[0].channel if families else explanation.bands[0].channel if explanation.bands else None
    return render_page(
        "explain.html",
        title=f"{explanation.source}, {explanation.begin:.1f} to {explanation.end:.1f} s",
        sentences=explanation.sentences,
        facts=facts(explanation),
        families=(FAMILY_HEADER, [family_row(one) for one in families]),
        peaks=(PEAK_HEADER, [peak_row(one) for one in explanation.peaks[:SHOWN_PEAKS]]),
        bands=(BAND_HEADER, band_rows(explanation)),
        kinds=(("features or channel", f"contribution to {found.label}"), kind_rows(found)) if found else None,
        pictures=[
            *spectrum_pictures(explanation, spectra),
            ("Waterfall", to_svg(waterfall_figure(spectra, channel or spectra.channels[0])), WATERFALL_CAPTION),
            *([("Contributions", to_svg(contribution_figure(found)), CONTRIBUTION_CAPTION)] if found else []),
        ],
        commands=commands,
    )


def spectrum_pictures(explanation: Explanation, spectra: ExplainedSpectra) -> list[tuple[str, str, str]]:
    """Return title, SVG and caption of the spectrum and the envelope spectrum, each with its most telling family."""
    pictures = []
    for title, envelope, caption in (
        ("Spectrum", False, SPECTRUM_CAPTION),
        ("Envelope spectrum", True, ENVELOPE_CAPTION),
    ):
        family = _first(explanation.families, envelope=envelope)
        pictures.append((title, to_svg(compared_spectra_figure(spectra, family, envelope=envelope)), caption))
    return pictures


def _first(families: Sequence[ExplainedFamily], *, envelope: bool) -> ExplainedFamily | None:
    return next((one for one in families if (one.domain == "envelope") == envelope), None)


def facts(explanation: Explanation) -> list[str]:
    """Return what was compared, and what is missing."""
    found = [f"At {explanation.condition}." if explanation.condition else "The condition is unknown."]
    if explanation.healthy:
        found.append(f"Compared with {', '.join(explanation.healthy)}.")
    if explanation.speed is not None:
        supply = "" if explanation.supply is None else f", supply {explanation.supply:.4g} Hz"
        found.append(f"Speed {explanation.speed:.1f} rpm{supply}.")
    if explanation.name_by_chance is not None:
        found.append(f"{explanation.name_by_chance:.1%} of random frequencies would have a name.")
    return found + [f"Note: {note}." for note in explanation.notes]


def family_row(one: ExplainedFamily) -> tuple[str, ...]:
    """Return the cells of a family of lines."""
    lines = ", ".join(f"{line.name} {line.frequency:.4g} Hz {line.decibels:+.0f} dB" for line in one.lines[:3])
    speaks = "yes" if one.speaks else "no"
    where = f"{one.channel}, envelope" if one.domain == "envelope" else one.channel
    return one.name, speaks, f"{one.strength:.2f}", f"{one.chance:.1%}", where, lines, one.meaning


def peak_row(one: ChangedPeak) -> tuple[str, ...]:
    """Return the cells of a peak."""
    where = f"{one.channel}, envelope" if one.envelope else one.channel
    return where, f"{one.frequency:.1f}", f"{one.decibels:+.1f}", f"{one.evidence:.1f}", one.name or ""


def band_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """Return the cells of the bands that changed beyond the healthy scatter."""
    return [
        (one.channel, f"{one.low:.0f} to {one.high:.0f}", f"{one.decibels:+.1f}", f"{one.beyond:.1f}")
        for one in explanation.bands[:SHOWN_BANDS]
        if one.beyond > 0
    ]


def kind_rows(found: Contributions) -> list[tuple[str, ...]]:
    """Return the contribution of every kind of features, then of every channel, with its share of pairs."""
    return [(one.name, f"{one.value:+.2f}") for one in (*found.kinds, *found.by_channel())]
