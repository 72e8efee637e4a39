"""The page of a check of the data: findings in the order in which to fix them, with pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from matplotlib.figure import Figure

from cgsa.check.finding import NOTE, SEVERITY_ORDER
from cgsa.check.run import CheckResult
from cgsa.report.check_figures import (
    COVERAGE_CAPTION,
    LEVEL_CAPTION,
    OVERLAP_CAPTION,
    SPECTRAL_CHECKS,
    SPECTRUM_CAPTION,
    coverage_figure,
    level_figure,
    overlap_figure,
    spectrum_figure,
)
from cgsa.report.figures import to_svg
from cgsa.report.page import HtmlPage, render_page

SHOWN = 500
"""Findings on the page."""


def check_page(result: CheckResult, name: str) -> HtmlPage:
    """Return the page of a set."""
    data = result.data
    counts = Counter(one.severity for one in result.findings)
    warned = [one for one in result.findings if one.severity != NOTE]
    suspicious = frozenset(recording for one in warned for recording in one.recordings)
    spectral = frozenset(recording for one in warned if one.check in SPECTRAL_CHECKS for recording in one.recordings)
    return render_page(
        "check.html",
        title=f"Check of {name}",
        facts=[
            ("recordings", str(len(data.recordings))),
            ("classes", ", ".join(data.classes) or "none stated"),
            ("channels", ", ".join(data.channels)),
            ("operating points", str(len(data.points))),
            ("duration", f"{sum(one.seconds for one in data.readable):.4g} s"),
        ],
        counts=[(severity, str(counts[severity])) for severity in SEVERITY_ORDER],
        findings=[(one.severity, one.check, one.found, one.why, one.fix, one.place) for one in result.findings[:SHOWN]],
        hidden=max(0, len(result.findings) - SHOWN),
        pictures=[
            (title, to_svg(figure), caption) for title, figure, caption in _pictures(result, suspicious, spectral)
        ],
    )


def _pictures(
    result: CheckResult, suspicious: frozenset[str], spectral: frozenset[str]
) -> Iterator[tuple[str, Figure, str]]:
    data = result.data
    if not data.channels:
        return
    if any(one.check in {"doubled", "leakage"} for one in result.findings):
        yield "Recordings that share samples", overlap_figure(data), OVERLAP_CAPTION
    yield "Levels", level_figure(data, suspicious), LEVEL_CAPTION
    if data.classes and len(data.points) > 1:
        yield "Classes and operating points", coverage_figure(data), COVERAGE_CAPTION
    if all(channel.summary.spectrum is not None for channel in data.each_live_channel()):
        yield "Spectra", spectrum_figure(data, spectral), SPECTRUM_CAPTION
