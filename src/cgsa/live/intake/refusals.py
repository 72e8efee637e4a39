"""What the intake refuses, and why: for the sender of a block, the API and the page of the machine.

What can be decided from a block alone, or from the place of its time stamp, is decided when it is submitted, and the
sender gets the reason as an error. The rest is found when the block is processed, in its turn; the sender learns it
with the answer to a later block.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cgsa.data.scenario import Condition
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError
from cgsa.live.intake.block import Block
from cgsa.live.intake.continuity import (
    CLOCK_JUMP,
    LATE,
    WRONG_CHANNELS,
    WRONG_ORDER,
    WRONG_RATE,
    ContinuityGate,
    Gap,
)

RefusedWhat: TypeAlias = Literal["block", "windows", "gap"]
WRONG_UNITS, WRONG_CONDITION = "wrong units", "unknown condition"
CURES: Mapping[str, str] = {
    WRONG_RATE: "correct the sample rate or the clock of the sender, which disagree",
    WRONG_CHANNELS: "send all channels of the model",
    WRONG_ORDER: "send the channels in the order of the model",
    LATE: "nothing, if it was sent twice; otherwise correct sequence number and clock of the sender",
    CLOCK_JUMP: "synchronise the clock of the sender; blocks are used again once a second one continues the first",
}
"""What to do about each reason for which a block is refused in its turn."""


@dataclass(frozen=True)
class Refusal:
    """Data that were refused or are missing."""

    what: RefusedWhat
    """A whole ``block``, some ``windows`` of a batch, or a ``gap`` in which data are missing."""
    time: float
    """Time of the first of these data, in seconds of the stream."""
    reason: str
    """A keyword, such as ``wrong rate``; for windows also the channels."""
    text: str
    """What is wrong and what would be right."""
    sequence: int | None = None
    """Number of the block; null for windows and gaps."""


class RefusedBlockError(DataError):
    """A block cannot be used as it is; sending it again does not help."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """A keyword, such as ``wrong rate``."""


class Admission:
    """Decides about blocks before they are in the journal, by what the model of the machine needs."""

    def __init__(self, gate: ContinuityGate, units: tuple[str, ...], conditions: tuple[Condition, ...]) -> None:
        self._gate, self._conditions = gate, conditions
        self._units = dict(zip(gate.channels, units, strict=True))

    def check(self, block: Block, recent: Container[Block] = ()) -> None:
        """Raise an error that says what is wrong with a block and what would be right.

        A block among the ``recent`` ones is no mistake: its sender may not have got the answer.
        """
        gate, where = self._gate, _where(block)
        reason, needed = gate.format_flaw(block), ", ".join(gate.channels)
        if reason == WRONG_RATE:
            raise RefusedBlockError(
                f"{where}: sample rate {block.sample_rate:g} Hz; expected {gate.sample_rate:g} Hz, to "
                f"{gate.config.rate_tolerance:.1%}: set the rate of the sender, or resample before sending",
                reason,
            )
        if reason == WRONG_CHANNELS:
            missing = ", ".join(name for name in gate.channels if name not in block.channels)
            raise RefusedBlockError(
                f"{where}: channels {', '.join(block.channels)}, without {missing}; expected {needed}, in this order",
                reason,
            )
        if reason is not None:
            raise RefusedBlockError(
                f"{where}: channels {', '.join(block.channels)}; expected {needed}, in this order", reason
            )
        self._check_units(block)
        self._check_conditions(block)
        if gate.is_outdated(block) and block not in recent:
            raise RefusedBlockError(
                f"{where}: {LATE}, its number and its time {block.time:.3f} s are before those of the blocks "
                f"known so far; expected blocks in order: {CURES[LATE]}",
                LATE,
            )

    def _check_units(self, block: Block) -> None:
        for name, unit in block.units.items():
            expected = self._units.get(name)
            if expected and normalise_unit(unit) != normalise_unit(expected):
                raise RefusedBlockError(
                    f"{_where(block)}: channel {name!r} in {unit}; expected {expected}: convert it before sending",
                    WRONG_UNITS,
                )

    def _check_conditions(self, block: Block) -> None:
        """Refuse a condition of another name: the sender would believe that it is used."""
        known = {condition.name for condition in self._conditions}
        unknown = [name for name in block.conditions if name not in known]
        if unknown:
            names = ", ".join(f"{condition.name} ({condition.unit})" for condition in self._conditions)
            raise RefusedBlockError(
                f"{_where(block)}: {WRONG_CONDITION} {unknown[0]!r}; the model knows {names or 'none'}", WRONG_CONDITION
            )


def refused_block(block: Block, reason: str) -> Refusal:
    """Return the refusal of a block in its turn."""
    return Refusal("block", block.time, reason, f"{_where(block)}: {reason}; {CURES[reason]}", block.sequence)


def refused_windows(fault: str, time: float, count: int) -> Refusal:
    """Return the refusal of windows of a batch by the quality gate."""
    text = f"{count} windows rejected from {time:.3f} s on: {fault}; check sensor, cable and range"
    return Refusal("windows", time, fault, text)


def missing_data(gap: Gap, time: float) -> Refusal:
    """Return the report of a gap that ends at ``time``."""
    text = (
        f"{gap.reason}: {gap.blocks} blocks, {round(gap.seconds, 3):g} s before {time:.3f} s; check sender and network"
    )
    return Refusal("gap", time - gap.seconds, gap.reason, text)


def _where(block: Block) -> str:
    return f"block of {block.machine}, sequence {block.sequence}"
