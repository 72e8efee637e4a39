"""What happened on a stream, in one sentence that follows from the figures alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cgsa.evaluation.approach_figures import RIGHT_SHARE, ApproachFigures

RIGHT_MEANS = (
    f"Right means: the verdict is right at least {RIGHT_SHARE:.0%} of the time, there is no false alarm, and an alarm "
    f"names the fault."
)

NOTABLE = 0.01
"""Share of the time from which wrong verdicts are worth a mention."""


def who_is_right(names: Sequence[str], figures: Sequence[ApproachFigures]) -> str:
    """Return which approaches are right, in a few words."""
    found = list(zip(names, figures, strict=True))
    right = [name for name, one in found if one.right]
    wrong = [name for name, one in found if not one.right]
    if not right:
        best = max(one.verdicts_right for one in figures)
        closest = [name for name, one in found if one.verdicts_right == best]
        return f"None of the {len(found)} is right; {_listed(closest)} {_be(closest)} closest."
    if not wrong:
        return f"All {len(found)} are right here."
    only = "Only " if len(right) == 1 else ""
    return _sentence(f"{only}{_listed(right)} {_be(right)} right; {_listed(wrong)} {_be(wrong)} not.")


def what_happened(names: Sequence[str], figures: Sequence[ApproachFigures], fault: str) -> str:
    """Return what every approach did, in one sentence; ``fault`` is the name of the fault that sets in."""
    clauses = [f"{name} {_did(found, fault)}" for name, found in zip(names, figures, strict=True)]
    return _sentence("; ".join(clauses) + ".")


def _did(found: ApproachFigures, fault: str) -> str:
    wrong = [
        f"{1 - share:.0%} of the {kind} time"
        for share, kind in ((found.healthy_right, "healthy"), (found.faulty_right, "faulty"))
        if not math.isnan(share) and 1 - share >= NOTABLE
    ] or [f"less than {NOTABLE:.0%} of the time"]
    count = found.false_alarms
    alarms = "no false alarm" if not count else f"{count} false alarm{'s' * (count > 1)}"
    return f"is wrong for {' and '.join(wrong)}, raises {alarms}, and {_noticed(found, fault)}"


def _noticed(found: ApproachFigures, fault: str) -> str:
    if found.delay is None:
        return f"never notices the {fault}"
    if found.named_delay is None:
        return f"never names the {fault}"
    if found.alarm_at_onset:
        return f"has its alarm on before the {fault} sets in"
    return f"names the {fault} after {found.named_delay:.2f} s"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
