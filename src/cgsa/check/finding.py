"""What a check of the data found: one statement, with its place and the remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

FindingSeverity: TypeAlias = Literal["stops training", "warning", "note"]
STOPS: FindingSeverity = "stops training"
WARNING: FindingSeverity = "warning"
NOTE: FindingSeverity = "note"
SEVERITY_ORDER: tuple[FindingSeverity, ...] = (STOPS, WARNING, NOTE)
"""What to fix first."""


@dataclass(frozen=True)
class Finding:
    """One fault of a data set, or one fact that a user of it should know."""

    severity: FindingSeverity
    found: str
    """What is the case, as a sentence without a final stop."""
    why: str
    """Why it matters."""
    fix: str
    """What to do about it."""
    recordings: tuple[str, ...] = ()
    """Names of the recordings concerned; empty if the whole set is."""
    channel: str | None = None
    seconds: tuple[float, float] | None = None
    """Begin and end within the first of the recordings."""
    check: str = ""
    """Name of the check; whoever runs it fills this in."""

    @property
    def place(self) -> str:
        """File, channel and seconds in words; ``all`` for the whole set."""
        named = [", ".join(self.recordings[:3]) + (" …" if len(self.recordings) > 3 else "")] if self.recordings else []
        if self.channel is not None:
            named.append(f"channel {self.channel}")
        if self.seconds is not None:
            named.append(f"{self.seconds[0]:.4g} to {self.seconds[1]:.4g} s")
        return ", ".join(named) or "all recordings"

    @property
    def sentence(self) -> str:
        """What was found, why it matters and what to do."""
        return f"{self.found}. {self.why}. {self.fix}."

    def values(self) -> dict[str, object]:
        """Return the finding as JSON values."""
        return asdict(self)
