"""Saved states of a watch, with what an operator needs to choose one to roll back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cgsa.live.state_file import SavedState


@dataclass(frozen=True)
class StateRow:
    """One saved state."""

    number: int
    time: float
    position: int
    bytes: int
    windows: int
    """Diagnosed so far."""
    learnt: int
    """Used for learning so far."""
    frozen: bool
    change: str
    """What happened since the previous state."""


def state_rows(states: Sequence[SavedState]) -> tuple[StateRow, ...]:
    """Return a row for each state, newest first."""
    found: list[StateRow] = []
    for saved in states:
        watch = _table(saved.about.get("watch"))
        counts = _table(watch.get("counts"))
        windows, learnt = (int(str(counts.get(name, 0))) for name in ("windows", "learnt"))
        frozen = bool(watch.get("frozen"))
        found.append(
            StateRow(
                number=saved.number,
                time=saved.time,
                position=saved.position,
                bytes=saved.bytes,
                windows=windows,
                learnt=learnt,
                frozen=frozen,
                change=_change_since(found[-1] if found else None, windows, learnt, frozen=frozen),
            )
        )
    return tuple(reversed(found))


def _change_since(before: StateRow | None, windows: int, learnt: int, *, frozen: bool) -> str:
    if before is None:
        return "oldest saved state"
    text = f"{windows - before.windows:,} windows diagnosed, {learnt - before.learnt:,} used for learning"
    if frozen == before.frozen:
        return text
    return f"{text}; learning {'frozen' if frozen else 'resumed'}"


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
