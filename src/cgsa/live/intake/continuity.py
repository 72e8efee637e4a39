"""Whether a block follows on those before it, by what its sender says: rate, channels, count and clock.

What the samples themselves are worth is judged by :mod:`cgsa.live.intake.quality`, whose
settings also hold the limits used here. What is refused is told with its reason,
and is neither learnt from nor queued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cgsa.config import as_table, bind
from cgsa.data.recording import FloatArray
from cgsa.errors import BundleError, ConfigError
from cgsa.live.intake.block import Block
from cgsa.live.intake.quality import QualityConfig

WRONG_RATE = "wrong rate"
WRONG_CHANNELS = "wrong channels"
WRONG_ORDER = "wrong channel order"
LATE = "duplicate or late"
CLOCK_JUMP = "clock jump"
BLOCK_REASONS = (WRONG_RATE, WRONG_CHANNELS, WRONG_ORDER, LATE, CLOCK_JUMP)
"""Why a block is refused."""

MISSING = "blocks missing"
RESTARTED = "sender restarted"
GAP_REASONS = (MISSING, RESTARTED, CLOCK_JUMP, WRONG_RATE)
"""Why samples do not follow on those before them."""

DRIFT_BLOCKS = 8
"""Fewer blocks do not tell a drift from stamps that shake."""


@dataclass(frozen=True)
class Gap:
    """Samples do not follow on those that were used before; no window may cross."""

    blocks: int
    """How many are missing or were refused; 0 where the sender started anew, for nobody knows."""
    seconds: float
    """How long they were, as far as the clock tells."""
    reason: str
    """One of ``GAP_REASONS``."""


@dataclass(frozen=True, eq=False)
class ContinuityResult:
    """Whether the samples of a block may be used."""

    samples: FloatArray | None
    """The wanted channels in their order; none where the block is refused."""
    reason: str | None = None
    """Why it is refused, one of ``BLOCK_REASONS``."""
    gap: Gap | None = None
    """What lies between these samples and those that were used before; none where they follow."""


@dataclass(frozen=True)
class _Line:
    """What the next block must continue: a count and a clock."""

    next: int
    """Sequence of the next block."""
    begun: float
    """When the block came that the clock is held against."""
    samples: int
    """Since then."""
    offset: float = 0.0
    """Seconds by which the last block was late against them."""
    halfway: float = 0.0
    """Seconds after ``begun`` at which a block last was within half of the tolerance."""
    rivals_from: int | None = None
    """No block has continued this line yet: two in a row from this sequence on would win over it."""
    jump: float = 0.0
    """Seconds by which the clock jumped to begin it."""
    lost: Gap | None = None
    """Refused or missing since the last block that was used."""
    probation: float = 0.0
    """Seconds after ``begun`` that the clock must go right before it is believed again."""


@dataclass(frozen=True)
class _Lines:
    """The state of a gate."""

    line: _Line | None = None
    rival: _Line | None = None
    """Another count or clock; a single block can begin it, and only a second one makes it the line."""


class ContinuityGate:
    """Holds every block of one machine against those before it.

    A count below the expected one is an old block, a higher one a gap. A clock
    that leaves its place at once has jumped, and one that creeps away while the
    samples keep coming belongs to another rate. Nobody is believed on the word of
    a single block: what departs from the line so far is refused, or used on its
    own, and becomes the line when the next block continues it. Until then blocks
    that continue the old line are as good as ever. So a block with an absurd count
    or time costs itself and at most one more.

    One thing cannot be told from old blocks that are sent again: a sender that
    starts anew while its clock is set back. Its blocks are refused until count or
    clock has caught up, or :meth:`reset` is called.

    Parameters
    ----------
    config
        The limits.
    channels
        Wanted, in this order. A block may have others beside them, which are
        dropped: sensors often send more than a model was trained on.
    sample_rate
        Wanted, in Hz.
    """

    def __init__(self, config: QualityConfig, channels: tuple[str, ...], sample_rate: float) -> None:
        self.config = config
        self.channels = channels
        self.sample_rate = sample_rate
        self.reset()

    def reset(self) -> None:
        """Take the next block as the first one."""
        self._lines = _Lines()

    def check(self, block: Block) -> ContinuityResult:
        """Return whether to use the next block that came, in the order of coming."""
        misfit = self._misfit(block)
        if misfit is not None:
            return ContinuityResult(None, misfit)
        line, rival = self._lines.line, self._lines.rival
        if line is None:
            return self._use(block, replace(_begun(block), rivals_from=0), None)
        due = block.sequence == line.next
        if due and abs(self._late(block, line)) <= self.config.clock_tolerance:
            return self._follow(block, line)
        if rival is not None and block.sequence == rival.next:
            believed = self._compare(block, rival)
            if believed is not None:
                return believed
        if due:
            return self._astray(block, line)
        return self._ahead(block, line) if block.sequence > line.next else self._behind(block, line)

    def state_dict(self) -> dict[str, object]:
        """Return everything that the next answer depends on, as plain JSON values."""
        return as_table(self._lines)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        try:
            self._lines = bind(_Lines, state, "state")
        except ConfigError as error:
            raise BundleError(f"state does not fit this block gate: {error}") from error

    def _misfit(self, block: Block) -> str | None:
        """Return what is wrong with a block by itself."""
        if abs(block.sample_rate - self.sample_rate) > self.config.rate_tolerance * self.sample_rate:
            return WRONG_RATE
        wanted = [name for name in block.channels if name in self.channels]
        if len(wanted) != len(self.channels):
            return WRONG_CHANNELS
        return None if tuple(wanted) == self.channels else WRONG_ORDER

    def _follow(self, block: Block, line: _Line) -> ContinuityResult:
        """Answer the block that is due at its time."""
        on = self._further(line, block)
        if self._elapsed(line) < line.probation:
            return self._refuse(WRONG_RATE, replace(on, lost=_more(line.lost, 1, block.seconds, WRONG_RATE)))
        return self._use(block, replace(on, probation=0.0), line.lost)

    def _astray(self, block: Block, line: _Line) -> ContinuityResult:
        """Answer the block that is due, at another time."""
        late, elapsed = self._late(block, line), self._elapsed(line)
        pace, step = abs(late) / elapsed, late - line.offset
        crept = pace <= self.config.rate_tolerance and abs(step) <= self.config.clock_tolerance / 2
        if crept and not line.probation:
            return self._use(block, _begun(block), line.lost)
        # Whatever drifts is halfway at about half of its time; whatever jumps was at home until just now.
        steady = elapsed >= DRIFT_BLOCKS * block.seconds and 0.25 * elapsed <= line.halfway <= 0.75 * elapsed
        if steady or line.probation:
            return self._refuse(WRONG_RATE, self._on_probation(block, line, pace))
        lost = _more(line.lost, 1, block.seconds, CLOCK_JUMP)
        return self._refuse(CLOCK_JUMP, line, replace(_begun(block), jump=step, lost=lost))

    def _compare(self, block: Block, rival: _Line) -> ContinuityResult | None:
        """Answer a block that a rival waits for; none where it does not continue it."""
        late = self._late(block, rival)
        if late * rival.jump > 0 and abs(late) >= abs(rival.jump) / 2:
            # The same way again: no clock jumps at every block.
            return self._refuse(WRONG_RATE, self._on_probation(block, rival, abs(late) / self._elapsed(rival)))
        if abs(late) > self.config.clock_tolerance or abs(late + rival.jump) < abs(late):
            return None
        return self._use(block, self._further(rival, block), rival.lost)

    def _ahead(self, block: Block, line: _Line) -> ContinuityResult:
        """Answer a block before which others are missing."""
        missing, silent = block.sequence - line.next, self._late(block, line) - line.offset
        lost = _more(line.lost, missing, max(0.0, silent), MISSING)
        if silent + self.config.clock_tolerance < missing / self.sample_rate:
            # Even with one sample each, so many blocks do not fit into that time.
            lost = _more(lost, 1, block.seconds, CLOCK_JUMP)
            return self._refuse(CLOCK_JUMP, line, replace(_begun(block), lost=lost))
        left = line.probation - self._elapsed(line)
        if left > 0:
            lost = _more(lost, 1, block.seconds, WRONG_RATE)
            return self._refuse(WRONG_RATE, replace(_begun(block), lost=lost, probation=left))
        return self._use(block, replace(_begun(block), rivals_from=_unseen(line)), lost)

    def _behind(self, block: Block, line: _Line) -> ContinuityResult:
        """Answer a block whose count was passed already."""
        silent = self._late(block, line) - line.offset
        if silent >= 0 and block.sequence == 0:
            return self._use(block, replace(_begun(block), rivals_from=_unseen(line)), Gap(0, silent, RESTARTED))
        if silent >= 0 or (line.rivals_from is not None and block.sequence >= line.rivals_from):
            lost = Gap(1, max(0.0, silent) + block.seconds, RESTARTED)
            return self._refuse(LATE, line, replace(_begun(block), lost=lost))
        return ContinuityResult(None, LATE)

    def _elapsed(self, line: _Line) -> float:
        """Return how long a line is by its samples."""
        return line.samples / self.sample_rate

    def _late(self, block: Block, line: _Line) -> float:
        """Return how long after the samples of a line a block begins."""
        return block.time - line.begun - self._elapsed(line)

    def _further(self, line: _Line, block: Block) -> _Line:
        """Return a line after a block that continues it."""
        late = self._late(block, line)
        near = abs(late) <= self.config.clock_tolerance / 2
        return replace(
            line,
            next=block.sequence + 1,
            samples=line.samples + block.count,
            offset=late,
            halfway=self._elapsed(line) if near else line.halfway,
            rivals_from=None,
            jump=0.0,
        )

    def _on_probation(self, block: Block, line: _Line, pace: float) -> _Line:
        """Return a line whose clock must first go right for as long as the same drift would need to show twice."""
        lost = _more(line.lost, 1, block.seconds, WRONG_RATE)
        probation = max(line.probation, 2 * self.config.clock_tolerance / pace)
        return replace(_begun(block), lost=lost, probation=probation)

    def _use(self, block: Block, line: _Line, gap: Gap | None) -> ContinuityResult:
        self._lines = _Lines(replace(line, lost=None))
        rows = [block.channels.index(name) for name in self.channels]
        return ContinuityResult(block.samples if block.channels == self.channels else block.samples[rows], None, gap)

    def _refuse(self, reason: str, line: _Line, rival: _Line | None = None) -> ContinuityResult:
        self._lines = _Lines(line, rival)
        return ContinuityResult(None, reason)


def _begun(block: Block) -> _Line:
    """Return a line that starts with this block."""
    return _Line(block.sequence + 1, block.time, block.count)


def _more(lost: Gap | None, blocks: int, seconds: float, reason: str) -> Gap:
    """Return what is lost with some more."""
    before = lost or Gap(0, 0.0, reason)
    return Gap(before.blocks + blocks, before.seconds + seconds, reason)


def _unseen(line: _Line) -> int:
    """Return from which count on no block was used before this line is left."""
    return line.next if line.rivals_from is None else line.rivals_from
