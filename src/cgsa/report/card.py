"""The card of a model: one page with its accuracy where it was not trained."""

from __future__ import annotations

from cgsa.errors import BundleError
from cgsa.nn.assessment import add_counts
from cgsa.nn.bundle import Manifest
from cgsa.nn.change import ChangeAssessment
from cgsa.report.card_figures import ACCURACY_CAPTION, CONFUSION_CAPTION, accuracy_figure, confusion_figure
from cgsa.report.card_tables import (
    class_table,
    estimate_table,
    false_share_table,
    leading_parts,
    member_table,
    part_table,
    sentences,
    small_print,
)
from cgsa.report.figures import to_svg
from cgsa.report.page import HtmlPage, render_page


def card_page(manifest: Manifest, name: str) -> HtmlPage:
    """Return the page of a model."""
    if manifest.healthy_only is not None:
        return _healthy_only_page(manifest, manifest.healthy_only, name)
    assessment = manifest.assessment
    if assessment is None:
        raise BundleError(f"{name}: this model has no accuracy at held-out parts; train it with objective 'ensemble'")
    parts = leading_parts(assessment)
    confusion = confusion_figure(add_counts(one.confusion for one in parts), manifest.classes) if parts else None
    return render_page(
        "card.html",
        title=f"Model {name}",
        sentences=sentences(manifest),
        estimates=estimate_table(assessment),
        parts=part_table(assessment),
        classes=class_table(assessment, manifest.classes),
        members=member_table(assessment),
        accuracy=to_svg(accuracy_figure(assessment.results)) if assessment.results else None,
        accuracy_caption=ACCURACY_CAPTION,
        confusion=None if confusion is None else to_svg(confusion),
        confusion_caption=CONFUSION_CAPTION,
        facts=_facts(manifest),
        small_print=small_print(assessment, manifest),
    )


def _healthy_only_page(manifest: Manifest, assessment: ChangeAssessment, name: str) -> HtmlPage:
    return render_page(
        "healthy_only_card.html",
        title=f"Model {name}",
        sentences=sentences(manifest),
        limiting=assessment.limiting,
        parts=false_share_table(assessment),
        facts=_facts(manifest),
    )


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    return [
        ("classes", ", ".join(manifest.classes)),
        ("channels", ", ".join(manifest.channels)),
        ("sample rate", f"{manifest.sample_rate:g} Hz"),
        ("window", f"{manifest.window.length / manifest.sample_rate:.3g} s"),
        (
            "conditions",
            "; ".join(f"{one.name}, {one.minimum:g} to {one.maximum:g} {one.unit}" for one in manifest.conditions),
        ),
        ("trained", f"{manifest.objective} on scenario {manifest.scenario}"),
        ("notes", "; ".join(manifest.notes) or "none"),
    ]
