"""Notes of a watch about what changes on its machine."""

from __future__ import annotations

from cgsa.events import CommissioningStatus, Note, Operation


def commissioning_key(status: CommissioningStatus | None) -> str:
    """Return what a note about the commissioning depends on: it is written when this changes."""
    if status is None:
        return ""
    return status.state if status.cause is None else f"{status.state}: {status.cause}"


def operation_note(machine: str, time: float, operation: Operation) -> Note:
    """Return the note that a machine was switched on or off."""
    hours = f"{operation.run_seconds / 3600:.1f} h of run time so far"
    text = f"{'standstill: not diagnosed' if operation.state == 'off' else 'running'}; {hours}"
    return Note(machine, time, "operation", text, {"state": operation.state, "since": operation.since})
