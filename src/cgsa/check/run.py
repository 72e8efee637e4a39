"""Run the checks on a set of recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cgsa.check import CHECKS, Check
from cgsa.check.data_set import DataSummary, summarise_data
from cgsa.check.finding import SEVERITY_ORDER, STOPS, Finding
from cgsa.check.recordings import LabelledRecording
from cgsa.errors import DataError

SHOWN = 5
"""Findings that an error lists."""


@dataclass(frozen=True, eq=False)
class CheckResult:
    """All findings of a set, what to fix first on top."""

    data: DataSummary
    findings: tuple[Finding, ...]

    @property
    def stopping(self) -> tuple[Finding, ...]:
        """Those that make a model trained on the set worthless."""
        return tuple(one for one in self.findings if one.severity == STOPS)


def check_data(
    recordings: Iterable[LabelledRecording],
    names: Iterable[str] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> CheckResult:
    """Run checks on recordings; ``names`` are those of the checks, by default all."""
    chosen = {name: CHECKS[name] for name in (CHECKS if names is None else names)}
    needs = frozenset().union(*(check.needs for check in chosen.values()))
    return find_faults(summarise_data(recordings, needs, on_progress), chosen)


def find_faults(data: DataSummary, checks: dict[str, Check]) -> CheckResult:
    """Run checks on what was measured."""
    found = [replace(finding, check=name) for name, check in checks.items() for finding in check.find(data)]
    return CheckResult(data, tuple(sorted(found, key=lambda one: SEVERITY_ORDER.index(one.severity))))


def checks_before_training() -> list[str]:
    """Return the names of the checks that can stop a training."""
    return [name for name in CHECKS if CHECKS[name].before_training]


def require_trainable(recordings: Iterable[LabelledRecording], advice: str) -> CheckResult:
    """Run the checks that can stop a training; raise an error with their findings if they do.

    ``advice`` says how to go on in spite of them.
    """
    result = check_data(recordings, checks_before_training())
    if result.stopping:
        raise DataError(stopping_message(result.stopping, advice))
    return result


def stopping_message(findings: Sequence[Finding], advice: str) -> str:
    """Return one text for the findings that stop a training."""
    lines = [f"{one.place}: {one.sentence}" for one in findings[:SHOWN]]
    more = [f"... and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
    return "\n".join(["a model trained on these recordings would be worthless:", *lines, *more, advice])
