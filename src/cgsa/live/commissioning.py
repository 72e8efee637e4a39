"""Commands about the commissioning of a machine, carried out on the diagnosis of its signal."""

from __future__ import annotations

from cgsa.errors import DataError
from cgsa.live.commands import Command
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.online.commissioned import CommissionedMethod


def execute_commissioning(signal: SignalDiagnoser, command: Command) -> str:
    """Carry out a command, and return what was done; a command that does not apply is refused."""
    method = signal.method
    if not isinstance(method, CommissionedMethod):
        raise DataError(f"method {signal.config.method} needs no commissioning; methods commissioning and change do")
    match command.name:
        case "confirm_healthy":
            method.confirm_healthy()
            done = "confirmed as healthy"
        case "mark_faulty":
            method.mark_faulty()
            done = "marked as faulty"
        case "commission":
            healthy = command.flag("healthy")
            method.repeat(healthy=healthy)
            done = f"commissioning repeated, {'known to be healthy' if healthy else 'not known to be healthy'}"
        case "take_reference":
            begin, end = command.number("begin"), command.number("end")
            method.take_from_history(begin, end)
            done = f"reference taken from {begin:.1f} to {end:.1f} s"
        case _:
            method.withdraw()
            done = "reference taken back"
    # What was believed of the machine rested on another reference, or on the doubt that is settled now.
    if command.name != "mark_faulty":
        signal.decision_maker.reset()
    return f"{done}; {method.commissioning.text}"
