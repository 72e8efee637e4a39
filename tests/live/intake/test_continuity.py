from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.config import bind
from cgsa.data.recording import FloatArray
from cgsa.errors import BundleError
from cgsa.live.intake.block import MAX_SEQUENCE, Block
from cgsa.live.intake.continuity import (
    BLOCK_REASONS,
    CLOCK_JUMP,
    GAP_REASONS,
    LATE,
    MISSING,
    RESTARTED,
    WRONG_CHANNELS,
    WRONG_ORDER,
    WRONG_RATE,
    ContinuityGate,
    ContinuityResult,
    Gap,
)
from cgsa.live.intake.quality import QualityConfig

CONFIG = QualityConfig()
RATE = 1000.0
COUNT = 100
SECONDS = COUNT / RATE
BEGUN = 1.7e9


def noise(channels: int, samples: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(channels, samples)).astype(np.float32)


def block(sequence: int, time: float | None = None, *, rate: float = RATE, names: str = "ab") -> Block:
    """A tenth of a second; without a time, where its sequence puts it."""
    begun = BEGUN + sequence * SECONDS if time is None else time
    return Block("pump", sequence, begun, rate, tuple(names), noise(len(names), COUNT, seed=sequence % 1000))


def gate(**settings: float) -> ContinuityGate:
    return ContinuityGate(bind(QualityConfig, settings, "test"), ("a", "b"), RATE)


def at(number: int) -> float:
    return BEGUN + number * SECONDS


def fed(blocks: Iterable[Block], watch: ContinuityGate | None = None) -> list[ContinuityResult]:
    watch = watch or gate()
    return [watch.check(one) for one in blocks]


def told(admissions: Iterable[ContinuityResult]) -> list[str | None]:
    """Reason of each, or of the gap before it."""
    return [one.gap.reason if one.gap else one.reason for one in admissions]


def assert_gap(found: Gap | None, blocks: int, seconds: float, reason: str) -> None:
    assert found is not None
    assert (found.blocks, found.reason) == (blocks, reason)
    assert found.seconds == pytest.approx(seconds, abs=1e-5)


def test_blocks_in_a_row_are_used_as_they_are() -> None:
    blocks = [block(n) for n in range(20)]
    for one, sent in zip(fed(blocks), blocks, strict=True):
        assert one.samples is sent.samples
        assert one.reason is None
        assert one.gap is None


def test_a_sender_may_begin_at_any_count() -> None:
    assert told(fed(block(n) for n in range(500, 503))) == [None, None, None]


def test_other_channels_beside_the_wanted_ones_are_dropped() -> None:
    sent = block(0, names="xaybz")
    (one,) = fed([sent])
    assert one.samples is not None
    np.testing.assert_array_equal(one.samples, sent.samples[[1, 3]])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (block(3, names="a"), WRONG_CHANNELS),
        (block(3, names="ac"), WRONG_CHANNELS),
        (block(3, names="ba"), WRONG_ORDER),
        (block(3, names="bxa"), WRONG_ORDER),
        (block(3, rate=1.002 * RATE), WRONG_RATE),
        (block(3, rate=0.998 * RATE), WRONG_RATE),
    ],
)
def test_a_block_of_another_form_is_refused_and_forgotten(wrong: Block, reason: str) -> None:
    watch = gate()
    fed([block(n) for n in range(3)], watch)
    before = watch.state_dict()
    found = watch.check(wrong)
    assert (found.samples, found.reason) == (None, reason)
    assert watch.state_dict() == before
    assert told(fed([block(3), block(4)], watch)) == [None, None]


def test_a_rate_within_the_tolerance_is_used() -> None:
    assert told(fed(block(n, rate=1.0009 * RATE) for n in range(5))) == [None] * 5


def test_a_refused_block_leaves_a_gap() -> None:
    found = fed([block(0), block(1, names="ba"), block(2)])
    assert_gap(found[2].gap, 1, SECONDS, MISSING)


@given(missing=st.integers(1, 10**6))
def test_missing_blocks_are_counted_and_timed(missing: int) -> None:
    found = fed([block(0), block(1), block(2 + missing), block(3 + missing)])
    assert told(found) == [None, None, MISSING, None]
    assert found[2].samples is not None
    assert_gap(found[2].gap, missing, missing * SECONDS, MISSING)


@given(order=st.lists(st.integers(0, 8), min_size=1, max_size=8))
def test_old_blocks_are_refused_however_often_they_come(order: list[int]) -> None:
    watch = gate()
    fed([block(n) for n in range(10)], watch)
    assert told(fed([block(n) for n in order], watch)) == [LATE] * len(order)
    assert told(fed([block(10)], watch)) == [None]


def test_a_block_that_was_overtaken_is_refused() -> None:
    assert told(fed(block(n) for n in (0, 1, 3, 2, 4))) == [None, None, MISSING, LATE, None]


def test_a_sender_that_starts_anew_leaves_a_gap() -> None:
    found = fed([*(block(n) for n in range(5)), block(0, at(50)), block(1, at(51))])
    assert told(found)[5:] == [RESTARTED, None]
    assert_gap(found[5].gap, 0, 45 * SECONDS, RESTARTED)


def test_a_first_block_that_is_sent_again_is_a_duplicate() -> None:
    assert told(fed(block(n) for n in (0, 0, 1, 2, 0, 3))) == [None, LATE, None, None, LATE, None]


def test_a_restart_whose_first_block_is_lost_takes_one_block_to_believe() -> None:
    found = fed([*(block(n) for n in range(50)), *(block(n, at(70 + n)) for n in range(1, 4))])
    assert told(found)[50:] == [LATE, RESTARTED, None]


@pytest.mark.parametrize("jump", [0.7, -0.7, 3600.0, -3600.0, 1e9, -1e9])
def test_a_clock_that_jumps_costs_one_block(jump: float) -> None:
    found = fed(block(n, at(n) + (jump if n >= 30 else 0)) for n in range(60))
    assert told(found) == [None] * 30 + [CLOCK_JUMP, CLOCK_JUMP] + [None] * 28
    assert [one.samples is None for one in found[30:32]] == [True, False]
    assert_gap(found[31].gap, 1, SECONDS, CLOCK_JUMP)


@pytest.mark.parametrize("jump", [0.7, -0.7, 3600.0, -3600.0, 1e9, -1e9])
def test_a_single_wrong_time_costs_one_block(jump: float) -> None:
    found = fed(block(n, at(n) + (jump if n == 30 else 0)) for n in range(60))
    assert told(found) == [None] * 30 + [CLOCK_JUMP, MISSING] + [None] * 28


@given(late=st.lists(st.floats(-0.24, 0.24), min_size=5, max_size=60))
def test_blocks_may_come_a_little_early_or_late(late: list[float]) -> None:
    assert told(fed(block(n, at(n) + off) for n, off in enumerate(late))) == [None] * len(late)


def test_a_badly_timed_first_block_is_no_drift() -> None:
    times = [at(n) - (0.4 if n == 0 else 0) for n in range(300)]
    assert told(fed(block(n, time) for n, time in enumerate(times))) == [None] * 300
    rng = np.random.default_rng(0)
    times = [time + rng.uniform(-0.2, 0.2) for time in times]
    assert WRONG_RATE not in told(fed(block(n, time) for n, time in enumerate(times)))


def at_pace(pace: float, blocks: int, seconds: float = SECONDS) -> list[Block]:
    """Blocks that claim the wanted rate, while their samples come at another pace."""
    count = round(RATE * seconds)
    samples = noise(2, count)
    return [Block("pump", n, BEGUN + n * pace * seconds, RATE, ("a", "b"), samples) for n in range(blocks)]


@pytest.mark.parametrize("seconds", [0.1, 1.0])
@pytest.mark.parametrize("pace", [0.5, 0.8, 0.95, 0.99, 0.997, 1.003, 1.01, 1.05, 1.2, 2.0])
def test_samples_of_another_rate_are_found_by_the_clock(pace: float, seconds: float) -> None:
    """The drift is found when it is beyond the tolerance, and from then on nothing is used."""
    until = 0.5 / abs(pace - 1) / seconds
    found = told(fed(at_pace(pace, 3 * math.ceil(until) + 10, seconds)))
    first = next(place for place, reason in enumerate(found) if reason is not None)
    assert until < first <= until + 2
    # Where a few blocks make a whole drift, the first of them looks like a jump.
    assert set(found[first + 1 :]) == {WRONG_RATE}
    assert found[first] in ((WRONG_RATE,) if until > 8 else (WRONG_RATE, CLOCK_JUMP))


@pytest.mark.parametrize("pace", [0.9991, 1.0009, 1.00002])
def test_a_crystal_may_be_off_for_ever(pace: float) -> None:
    assert told(fed(at_pace(pace, 2500, 1.0))) == [None] * 2500


def test_a_rate_that_was_put_right_is_believed_again() -> None:
    wrong = at_pace(0.95, 150)
    end = wrong[-1].time + SECONDS
    right = [block(150 + n, end + n * SECONDS) for n in range(400)]
    found = fed([*wrong, *right])
    first = told(found).index(WRONG_RATE)
    used = [place for place, one in enumerate(found) if place > first and one.samples is not None]
    assert 150 < used[0] < 150 + 250
    assert used == list(range(used[0], 550))
    assert_gap(found[used[0]].gap, used[0] - first, (used[0] - first) * SECONDS, WRONG_RATE)
    assert told(found)[used[0] + 1 :] == [None] * (549 - used[0])


def test_a_gap_does_not_end_the_wait_for_a_right_rate() -> None:
    wrong = at_pace(0.95, 120)
    end = wrong[-1].time + SECONDS
    found = told(fed([*wrong, *(block(125 + n, end + (5 + n) * SECONDS) for n in range(10))]))
    assert found[-10:] == [WRONG_RATE] * 10


LIES = st.builds(
    block,
    st.sampled_from([0, 1, 35, 40, 41, 50, 10**4, 10**9, 10**18, MAX_SEQUENCE - 1]),
    st.sampled_from([0.0, at(0), at(20), at(39), at(40), at(41), at(60), at(10**4), 4e9, 2.5e11]),
)


@given(lie=LIES, place=st.integers(0, 40))
@settings(max_examples=400)
def test_no_single_block_can_silence_the_others(lie: Block, place: int) -> None:
    """Whatever one block says of its count and time, it costs at most one more."""
    watch = gate()
    fed([*(block(n) for n in range(place)), lie], watch)
    after = fed([block(n) for n in range(place, place + 30)], watch)
    assert sum(one.samples is None for one in after) <= 1
    assert told(after)[3:] == [None] * 27


@given(lies=st.lists(st.tuples(st.integers(3, 60), LIES), max_size=3, unique_by=lambda one: one[0] // 12))
def test_lies_apart_from_each_other_cost_one_block_each(lies: list[tuple[int, Block]]) -> None:
    strange = {place: lie for place, lie in lies if abs(lie.time - at(lie.sequence)) > 1}
    watch, used = gate(), 0
    for n in range(80):
        if n in strange:
            watch.check(strange[n])
        used += watch.check(block(n)).samples is not None
    assert used >= 80 - len(strange)


EVENTS = st.sampled_from(["next", "next", "next", "next", "again", "lost", "jump", "restart", "order", "drift"])


def story(events: list[str], seed: int) -> list[Block]:
    """Blocks of a sender to whom these things happen."""
    rng = np.random.default_rng(seed)
    sequence, time, blocks = 0, BEGUN, [block(0)]
    for event in events:
        if event == "again":
            blocks.append(blocks[int(rng.integers(len(blocks)))])
            continue
        sequence, time = sequence + 1, time + SECONDS
        if event == "lost":
            sequence, time = sequence + 3, time + 3 * SECONDS
        elif event == "jump":
            time = max(0.0, time + float(rng.choice([-1e4, -0.6, 0.6, 1e4])))
        elif event == "restart":
            sequence, time = 0, time + 5
        elif event == "drift":
            time += 0.09
        blocks.append(block(sequence, time, names="ba" if event == "order" else "ab"))
    return blocks


@given(events=st.lists(EVENTS, max_size=40), seed=st.integers(0, 99), cut=st.integers(0, 40))
def test_a_gate_goes_on_from_its_state(events: list[str], seed: int, cut: int) -> None:
    blocks = story(events, seed)
    whole, first, second = gate(), gate(), gate()
    expected = fed(blocks, whole)
    fed(blocks[:cut], first)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    rest = fed(blocks[cut:], second)
    assert [(one.reason, one.gap) for one in rest] == [(one.reason, one.gap) for one in expected[cut:]]
    assert second.state_dict() == whole.state_dict()


@given(events=st.lists(EVENTS, max_size=40), seed=st.integers(0, 99))
def test_what_is_used_without_a_gap_follows_on_what_was_used_before(events: list[str], seed: int) -> None:
    blocks = story(events, seed)
    used = []
    for sent, one in zip(blocks, fed(blocks), strict=True):
        assert (one.samples is None) == (one.reason is not None)
        assert one.reason is None or (one.reason in BLOCK_REASONS and one.gap is None)
        if one.samples is not None:
            used.append((sent, one.gap))
    for (before, _), (sent, gap) in pairwise(used):
        if gap is None:
            assert sent.sequence == before.sequence + 1
            assert abs(sent.time - before.time - SECONDS) <= 2 * CONFIG.clock_tolerance
        else:
            assert gap.reason in GAP_REASONS
            assert gap.seconds >= 0


def test_a_gate_forgets_on_demand() -> None:
    watch = gate()
    fed([block(n) for n in range(5)], watch)
    watch.reset()
    assert watch.state_dict() == gate().state_dict()
    assert told(fed([block(0, BEGUN - 1e6), block(1, BEGUN - 1e6 + SECONDS)], watch)) == [None, None]


def test_a_state_that_does_not_fit_is_refused() -> None:
    watch = gate()
    fed([block(0)], watch)
    before = watch.state_dict()
    line = before["line"]
    assert isinstance(line, dict)
    for wrong in ({"line": 3}, {"other": None}, {"line": {"next": 1}}, {"line": {**line, "next": "1"}}):
        with pytest.raises(BundleError, match="state does not fit this block gate"):
            watch.load_state_dict(wrong)
    assert watch.state_dict() == before
