"""Classes with much less signal than the others."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS, WARNING

SMALL = 0.25
"""Share of the usual duration of a class below which it is small."""


def find_imbalance(data: DataSummary) -> Iterator[Finding]:
    """Yield classes with less than a quarter of the signal of the others, and recordings without class."""
    unlabelled = tuple(one.name for one in data.readable if not one.label)
    if unlabelled and data.classes:
        yield Finding(
            STOPS,
            f"{len(unlabelled)} recordings have no class",
            "A model is trained on recordings whose state is known",
            "Name their class, or keep them for watching",
            unlabelled,
        )
    seconds = {name: sum(one.seconds for one in data.readable if one.label == name) for name in data.classes}
    for name, own in seconds.items():
        others = [value for other, value in seconds.items() if other != name]
        if others and own < SMALL * median(others):
            yield Finding(
                WARNING,
                f"Class {name!r} has {own:.3g} s; the other classes have {median(others):.3g} s",
                "A model that never says this class would still look accurate, and its errors hardly count in training",
                "Record more of it, or judge the model by the accuracy of each class",
                tuple(one.name for one in data.readable if one.label == name),
            )


CHECK = Check("classes with little signal or none", find_imbalance, before_training=False)
