"""The results of an evaluation as plain values, for other programs."""

from __future__ import annotations

from cgsa.config import as_table
from cgsa.evaluation.results import Evaluation, StreamGroup


def evaluation_values(found: Evaluation) -> dict[str, object]:
    """Return all figures of an evaluation as JSON values."""
    return {
        "model": found.model,
        "data": found.data,
        "method": found.method,
        "classes": list(found.classes),
        "states": list(found.states),
        "left_out": found.left_out,
        "notes": list(found.notes),
        "groups": {group.name.replace(" ", "_"): _details(group) for group in found.groups},
        "recordings": [as_table(one) for one in found.streams],
    }


def _details(group: StreamGroup) -> dict[str, object]:
    return {
        **_figures(group),
        "confusion": [list(row) for row in group.confusion],
        "verdicts": [list(row) for row in group.verdicts],
        "reliability": [
            {"probability": mean, "right": right, "windows": count} for mean, right, count in group.reliability.points
        ],
        "conditions": {one.name: _figures(one) for one in group.by_point()},
        "by_class": {one.name: _figures(one) for one in group.by_class()},
    }


def _figures(group: StreamGroup) -> dict[str, object]:
    return {
        "recordings": len(group.streams),
        "accuracy": group.accuracy,
        "verdict_accuracy": group.verdict_accuracy,
        "faults": len(group.faults),
        "alarms": group.alarms,
        "named_alarms": group.named_alarms,
        "median_delay": group.delay,
        "false_alarms": group.false_alarms,
        "healthy_hours": group.healthy_hours,
        "false_alarms_per_hour": group.false_alarms_per_hour,
        "calibration_error": group.reliability.calibration_error,
    }
