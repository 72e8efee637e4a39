"""Labels of people, handed to a method that can use them at once."""

from __future__ import annotations

from cgsa.errors import DataError
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.online.change import Change


def learn_label(signal: SignalDiagnoser, state: str, begin: float, end: float) -> str | None:
    """Hand a labelled interval to the method, and return what came of it; None if the method uses no labels.

    The label itself is kept in any case, for later trainings.
    """
    method = signal.method
    if not isinstance(method, Change):
        return None
    try:
        method.label(state, begin, end)
    except DataError as error:
        return f"label {state} is kept, but the method cannot use it: {error}"
    healthy = state == signal.bundle.manifest.classes[0]
    return f"{state} is {'a further healthy reference' if healthy else 'named from now on'}"
