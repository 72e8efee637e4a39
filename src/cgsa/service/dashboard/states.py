"""Earlier states of a watch, told so that a person can choose the one to go back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cgsa.live.checkpoint import SavedState


@dataclass(frozen=True)
class StateRow:
    """One state."""

    number: int
    time: float
    position: int
    bytes: int
    windows: int
    """Seen so far."""
    learnt: int
    """Learnt from so far."""
    frozen: bool
    what: str
    """What happened since the state before it."""


def state_rows(states: Sequence[SavedState]) -> tuple[StateRow, ...]:
    """Return all states, the newest first."""
    found: list[StateRow] = []
    for saved in states:
        watch = _table(saved.about.get("watch"))
        counts = _table(watch.get("counts"))
        windows, learnt = (int(str(counts.get(name, 0))) for name in ("windows", "learnt"))
        frozen = bool(watch.get("frozen"))
        before = found[-1] if found else None
        found.append(
            StateRow(
                number=saved.number,
                time=saved.time,
                position=saved.position,
                bytes=saved.bytes,
                windows=windows,
                learnt=learnt,
                frozen=frozen,
                what=_what(before, windows, learnt, frozen=frozen),
            )
        )
    return tuple(reversed(found))


def _what(before: StateRow | None, windows: int, learnt: int, *, frozen: bool) -> str:
    if before is None:
        return "the oldest that is kept"
    parts = [f"{windows - before.windows:,} windows seen, {learnt - before.learnt:,} learnt from"]
    if frozen != before.frozen:
        parts.append("learning frozen" if frozen else "learning goes on")
    return "; ".join(parts)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
