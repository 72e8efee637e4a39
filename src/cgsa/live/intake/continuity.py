"""Check that each block continues the blocks before it: sample rate, channels, sequence number and clock.

:mod:`cgsa.live.intake.quality` checks the samples themselves, and its settings
also hold the limits used here. Refused blocks are reported with a reason and
are neither diagnosed nor used for adaptation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cgsa.config import as_table, bind, stored_as, stored_if_given
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
"""Why samples do not continue the previous ones."""

DRIFT_BLOCKS = 8
"""With fewer blocks, a drift cannot be told from jitter of the time stamps."""


@dataclass(frozen=True)
class Gap:
    """An interruption between samples in use; no window may cross it."""

    blocks: int
    """Number of missing or refused blocks; 0 after a restart of the sender, when it is unknown."""
    seconds: float
    """Duration according to the sender's clock."""
    reason: str
    """One of ``GAP_REASONS``."""


@dataclass(frozen=True, eq=False)
class ContinuityResult:
    """Whether the samples of a block may be used."""

    samples: FloatArray | None
    """The expected channels in their order; None if the block is refused."""
    reason: str | None = None
    """Why the block is refused, one of ``BLOCK_REASONS``."""
    gap: Gap | None = None
    """The gap between these samples and the last ones in use; None if there is none."""
    pause: float | None = None
    """Seconds between a complete recording and these samples, which begin another one; None if they do not."""


@dataclass(frozen=True)
class _StreamPosition:
    """Sequence number and clock that the next block must continue."""

    next_sequence: int = field(metadata=stored_as("next"))
    start_time: float = field(metadata=stored_as("begun"))
    """Time of the block from which the clock is checked."""
    samples: int
    """Number of samples since then."""
    offset: float = 0.0
    """Seconds by which the last block was late relative to the samples."""
    last_near: float = field(default=0.0, metadata=stored_as("halfway"))
    """Seconds after ``start_time`` at which a block last was within half the tolerance."""
    replaceable_from: int | None = field(default=None, metadata=stored_as("rivals_from"))
    """Set until a block continues this position: two successive blocks from this sequence number on replace it."""
    jump: float = 0.0
    """Seconds by which the clock jumped to this position."""
    lost: Gap | None = None
    """Blocks refused or missing since the last block in use."""
    observation: float = field(default=0.0, metadata=stored_as("probation"))
    """Seconds after ``start_time`` for which the clock must be right before blocks are used again."""


@dataclass(frozen=True)
class _GateState:
    position: _StreamPosition | None = field(default=None, metadata=stored_as("line"))
    candidate: _StreamPosition | None = field(default=None, metadata=stored_as("rival"))
    """Another sequence or clock. One block creates it; only a second one that continues it makes it the position."""
    interrupted: bool | None = field(default=None, metadata=stored_if_given())
    """Whether a recording is complete, so that the next block begins another one; None means that it is not."""


class ContinuityGate:
    """Compares every block of one machine with the blocks before it.

    A sequence number below the expected one means an old block, a higher one a
    gap. A clock that deviates at once has jumped; one that drifts away while
    samples keep coming means another sample rate. A single block never changes
    what is expected: a block that deviates is refused, or used on its own, and
    becomes the new position only when the next block continues it. Until then,
    blocks that continue the old position are still accepted. A block with an
    absurd sequence number or time thus costs itself and at most one more block.

    One case looks like old blocks sent again: a sender that restarts while its
    clock is set back. Its blocks are refused until sequence number or clock have
    caught up, or until :meth:`reset` is called.

    ``channels`` are expected in this order. Additional channels of a block are
    dropped: sensors often send more than a model was trained on. ``sample_rate`` is
    the expected rate in Hz. Signals that are measured in bursts pause: with ``longest_pause``,
    blocks may resume up to that many seconds after the last one, with the next number or with 0.
    """

    def __init__(
        self, config: QualityConfig, channels: tuple[str, ...], sample_rate: float, *, longest_pause: float = 0.0
    ) -> None:
        self.config = config
        self.channels = channels
        self.sample_rate = sample_rate
        self.longest_pause = longest_pause
        self._state = _GateState()

    @property
    def next_sequence(self) -> int:
        """Number of the block that continues those before it; 0 before the first."""
        position = self._state.position
        return 0 if position is None else position.next_sequence

    @property
    def expects_first(self) -> bool:
        """Whether the next block may have any number and any time."""
        return self._state.position is None

    def interrupt(self) -> None:
        """Expect that the next block begins another recording, at any later time."""
        self._state = replace(self._state, interrupted=True)

    def reset(self) -> None:
        """Treat the next block as the first one."""
        self._state = _GateState()

    def check(self, block: Block) -> ContinuityResult:
        """Return whether to use the next block, in order of arrival."""
        flaw = self.format_flaw(block)
        if flaw is not None:
            return ContinuityResult(None, flaw)
        position = self._state.position
        if position is None:
            return self._accept(block, replace(_start_at(block), replaceable_from=0), None)
        pause = self._pause(block, position)
        if pause is not None:
            return self._accept(block, _start_at(block), None, pause)
        return self._check_next(block, position)

    def format_flaw(self, block: Block) -> str | None:
        """Return what is wrong with a block by itself."""
        if abs(block.sample_rate - self.sample_rate) > self.config.rate_tolerance * self.sample_rate:
            return WRONG_RATE
        known = [name for name in block.channels if name in self.channels]
        if len(known) != len(self.channels):
            return WRONG_CHANNELS
        return None if tuple(known) == self.channels else WRONG_ORDER

    def is_outdated(self, block: Block) -> bool:
        """Return whether a block would be refused as late, whatever comes before it; any thread may ask."""
        state = self._state
        position = state.position
        if position is None or state.candidate is not None or block.sequence >= position.next_sequence:
            return False
        replaceable = position.replaceable_from is not None and block.sequence >= position.replaceable_from
        return not replaceable and self._delay(block, position) - position.offset < 0

    def state_dict(self) -> dict[str, object]:
        """Return everything that the next result depends on, as plain JSON values."""
        return as_table(self._state)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        try:
            self._state = bind(_GateState, state, "state")
        except ConfigError as error:
            raise BundleError(f"state does not fit this continuity gate: {error}") from error

    def _pause(self, block: Block, position: _StreamPosition) -> float | None:
        """Return the seconds of a pause that ends with this block; None if it begins no other recording."""
        silent = self._delay(block, position) - position.offset
        if position.observation:
            return None
        if self._state.interrupted:
            return max(0.0, silent) if silent >= -self.config.clock_tolerance else None
        resumes = block.sequence in {position.next_sequence, 0}
        return silent if resumes and self.config.clock_tolerance < silent <= self.longest_pause else None

    def _check_next(self, block: Block, position: _StreamPosition) -> ContinuityResult:
        """Check a block that begins no other recording."""
        candidate = self._state.candidate
        expected = block.sequence == position.next_sequence
        if expected and abs(self._delay(block, position)) <= self.config.clock_tolerance:
            return self._check_on_time(block, position)
        if candidate is not None and block.sequence == candidate.next_sequence:
            result = self._check_candidate(block, candidate)
            if result is not None:
                return result
        if block.sequence < position.next_sequence:
            return self._check_old_sequence(block, position)
        return (self._check_clock_deviation if expected else self._check_after_missing)(block, position)

    def _check_on_time(self, block: Block, position: _StreamPosition) -> ContinuityResult:
        """Check the expected block that arrives at its time."""
        advanced = self._advance(position, block)
        if self._elapsed(position) < position.observation:
            lost = _add_loss(position.lost, 1, block.seconds, WRONG_RATE)
            return self._refuse(WRONG_RATE, replace(advanced, lost=lost))
        return self._accept(block, replace(advanced, observation=0.0), position.lost)

    def _check_clock_deviation(self, block: Block, position: _StreamPosition) -> ContinuityResult:
        """Check the expected block that arrives at another time."""
        delay, elapsed = self._delay(block, position), self._elapsed(position)
        drift_rate, step = abs(delay) / elapsed, delay - position.offset
        slow = drift_rate <= self.config.rate_tolerance and abs(step) <= self.config.clock_tolerance / 2
        if slow and not position.observation:
            return self._accept(block, _start_at(block), position.lost)
        # A drift reaches half the tolerance after about half the time; before a jump the clock was right until the end.
        drifts = elapsed >= DRIFT_BLOCKS * block.seconds and 0.25 * elapsed <= position.last_near <= 0.75 * elapsed
        if drifts or position.observation:
            return self._refuse(WRONG_RATE, self._start_observation(block, position, drift_rate))
        lost = _add_loss(position.lost, 1, block.seconds, CLOCK_JUMP)
        return self._refuse(CLOCK_JUMP, position, replace(_start_at(block), jump=step, lost=lost))

    def _check_candidate(self, block: Block, candidate: _StreamPosition) -> ContinuityResult | None:
        """Check a block that may continue the candidate; return None if it does not."""
        delay = self._delay(block, candidate)
        if delay * candidate.jump > 0 and abs(delay) >= abs(candidate.jump) / 2:
            # A second jump in the same direction: the sample rate is wrong, since no clock jumps at every block.
            drift_rate = abs(delay) / self._elapsed(candidate)
            return self._refuse(WRONG_RATE, self._start_observation(block, candidate, drift_rate))
        if abs(delay) > self.config.clock_tolerance or abs(delay + candidate.jump) < abs(delay):
            return None
        return self._accept(block, self._advance(candidate, block), candidate.lost)

    def _check_after_missing(self, block: Block, position: _StreamPosition) -> ContinuityResult:
        """Check a block before which others are missing."""
        missing, silent = block.sequence - position.next_sequence, self._delay(block, position) - position.offset
        lost = _add_loss(position.lost, missing, max(0.0, silent), MISSING)
        if silent + self.config.clock_tolerance < missing / self.sample_rate:
            # Even with one sample each, this many blocks do not fit into that time.
            lost = _add_loss(lost, 1, block.seconds, CLOCK_JUMP)
            return self._refuse(CLOCK_JUMP, position, replace(_start_at(block), lost=lost))
        remaining = position.observation - self._elapsed(position)
        if remaining > 0:
            lost = _add_loss(lost, 1, block.seconds, WRONG_RATE)
            return self._refuse(WRONG_RATE, replace(_start_at(block), lost=lost, observation=remaining))
        return self._accept(block, replace(_start_at(block), replaceable_from=_first_unused(position)), lost)

    def _check_old_sequence(self, block: Block, position: _StreamPosition) -> ContinuityResult:
        """Check a block with a sequence number below the expected one."""
        silent = self._delay(block, position) - position.offset
        if silent >= 0 and block.sequence == 0:
            restarted = replace(_start_at(block), replaceable_from=_first_unused(position))
            return self._accept(block, restarted, Gap(0, silent, RESTARTED))
        if silent >= 0 or (position.replaceable_from is not None and block.sequence >= position.replaceable_from):
            lost = Gap(1, max(0.0, silent) + block.seconds, RESTARTED)
            return self._refuse(LATE, position, replace(_start_at(block), lost=lost))
        return ContinuityResult(None, LATE)

    def _elapsed(self, position: _StreamPosition) -> float:
        """Return the seconds since ``start_time`` according to the number of samples."""
        return position.samples / self.sample_rate

    def _delay(self, block: Block, position: _StreamPosition) -> float:
        """Return the seconds from the end of the samples so far to the start of a block."""
        return block.time - position.start_time - self._elapsed(position)

    def _advance(self, position: _StreamPosition, block: Block) -> _StreamPosition:
        """Return the position after a block that continues it."""
        delay = self._delay(block, position)
        near = abs(delay) <= self.config.clock_tolerance / 2
        return replace(
            position,
            next_sequence=block.sequence + 1,
            samples=position.samples + block.count,
            offset=delay,
            last_near=self._elapsed(position) if near else position.last_near,
            replaceable_from=None,
            jump=0.0,
        )

    def _start_observation(self, block: Block, position: _StreamPosition, drift_rate: float) -> _StreamPosition:
        """Return a position whose clock must first be right for as long as the same drift takes to show twice."""
        lost = _add_loss(position.lost, 1, block.seconds, WRONG_RATE)
        observation = max(position.observation, 2 * self.config.clock_tolerance / drift_rate)
        return replace(_start_at(block), lost=lost, observation=observation)

    def _accept(
        self, block: Block, position: _StreamPosition, gap: Gap | None, pause: float | None = None
    ) -> ContinuityResult:
        self._state = _GateState(replace(position, lost=None))
        rows = [block.channels.index(name) for name in self.channels]
        samples = block.samples if block.channels == self.channels else block.samples[rows]
        return ContinuityResult(samples, None, gap, pause)

    def _refuse(
        self, reason: str, position: _StreamPosition, candidate: _StreamPosition | None = None
    ) -> ContinuityResult:
        self._state = _GateState(position, candidate, self._state.interrupted)
        return ContinuityResult(None, reason)


def _start_at(block: Block) -> _StreamPosition:
    """Return a position that starts with this block."""
    return _StreamPosition(block.sequence + 1, block.time, block.count)


def _add_loss(lost: Gap | None, blocks: int, seconds: float, reason: str) -> Gap:
    before = lost or Gap(0, 0.0, reason)
    return Gap(before.blocks + blocks, before.seconds + seconds, reason)


def _first_unused(position: _StreamPosition) -> int:
    """Return the sequence number from which on no block was used before this position."""
    return position.next_sequence if position.replaceable_from is None else position.replaceable_from
