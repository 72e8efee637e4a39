"""Blocks that are refused one after the other: while none is used, nobody watches the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cgsa.live.intake.refusals import Refusal

MIN_BLOCKS = 3
"""One block with an absurd number or time costs itself and at most one more; that is no reason for an alarm."""


@dataclass(frozen=True)
class RefusedRun:
    """The blocks refused since the last one in use."""

    since: float
    """End of the last samples in use, in seconds of the stream."""
    count: int
    seconds: float
    """Seconds of signal that they hold."""
    reason: str
    """Why the newest was refused, such as ``duplicate or late``."""
    why: str
    """What is wrong with the newest, and what would be right."""

    def lasts(self, seconds: float) -> bool:
        """Return whether so much signal was refused that an operator must know."""
        return self.count >= MIN_BLOCKS and self.seconds >= seconds

    @property
    def text(self) -> str:
        """The run as a sentence."""
        return f"{self.count} blocks with {self.seconds:.1f} s of signal refused and none used: {self.why}"


def extend_run(run: RefusedRun | None, refusal: Refusal, seconds: float, now: float) -> RefusedRun:
    """Return a run with one more refused block of so many seconds; ``now`` is the end of the samples in use."""
    before = run or RefusedRun(now, 0, 0.0, "", "")
    return replace(
        before,
        count=before.count + 1,
        seconds=before.seconds + seconds,
        reason=refusal.reason,
        why=refusal.text,
    )
