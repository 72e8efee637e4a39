"""Which cases to read, by what an operator looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cgsa.events import CaseState, Severity
from cgsa.live.store.dialect import Dialect
from cgsa.live.store.mapping import Statement, Value

ListedState: TypeAlias = CaseState | Literal["shelved"]
"""State of a case in a list: one that is shelved counts as such, whatever else it is."""


@dataclass(frozen=True)
class CaseFilter:
    """Which cases to read; what is empty or None excludes none."""

    only_open: bool = False
    states: tuple[ListedState, ...] = ()
    severities: tuple[Severity, ...] = ()
    fault: str | None = None
    """One of its faults."""
    machine: str | None = None
    """Name of a machine, or a pattern with ``*`` and ``?``."""
    acknowledged: bool | None = None
    """Whether a person has acknowledged it."""

    def condition(self, dialect: Dialect) -> Statement:
        """Return the SQL condition and its values; both are empty if all cases are wanted."""
        parts: list[str] = []
        values: list[Value] = []
        if self.only_open:
            parts.append("state != 'closed'")
        if self.states:
            found = "CASE WHEN state != 'closed' AND shelved_until IS NOT NULL THEN 'shelved' ELSE state END"
            parts.append(f"{found} IN ({', '.join('?' * len(self.states))})")
            values += self.states
        if self.severities:
            parts.append(f"severity IN ({', '.join('?' * len(self.severities))})")
            values += self.severities
        if self.fault is not None:
            contains, items = dialect.contains("faults", self.fault)
            parts.append(contains)
            values += items
        if self.machine is not None:
            matches, patterns = dialect.matches("machine", self.machine)
            parts.append(matches)
            values += patterns
        if self.acknowledged is not None:
            parts.append(f"acknowledged_by IS {'NOT ' if self.acknowledged else ''}NULL")
        return " AND ".join(parts), tuple(values)


ALL_CASES = CaseFilter()
