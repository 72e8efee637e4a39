"""What a method offers if a machine is commissioned with it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cgsa.events import CommissioningStatus


@runtime_checkable
class CommissionedMethod(Protocol):
    """A method that observes a healthy start of the machine, and asks if it is in doubt."""

    @property
    def commissioning(self) -> CommissioningStatus:
        """How far the commissioning is."""
        ...

    def repeat(self, *, healthy: bool) -> None:
        """Discard references and observe a new start; ``healthy`` is whether the machine is known to be healthy."""
        ...

    def confirm_healthy(self) -> None:
        """Answer that the observed start is healthy."""
        ...

    def mark_faulty(self) -> None:
        """Answer that the machine is faulty."""
        ...

    def withdraw(self) -> None:
        """Take the reference back."""
        ...

    def take_from_history(self, begin: float, end: float) -> None:
        """Take a reference from an interval of the history."""
        ...

    def interrupt(self) -> None:
        """Start the span anew, since the quality gate rejected too many windows."""
        ...
