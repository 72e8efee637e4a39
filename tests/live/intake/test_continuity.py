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
START = 1.7e9


def noise(channels: int, samples: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(channels, samples)).astype(np.float32)


def block(sequence: int, time: float | None = None, *, rate: float = RATE, names: str = "ab") -> Block:
    """Return a block of 0.1 s; its default time follows from its sequence number."""
    start = START + sequence * SECONDS if time is None else time
    return Block("pump", sequence, start, rate, tuple(names), noise(len(names), COUNT, seed=sequence % 1000))


def gate(**settings: float) -> ContinuityGate:
    return ContinuityGate(bind(QualityConfig, settings, "test"), ("a", "b"), RATE)


def at(number: int) -> float:
    return START + number * SECONDS


def check_all(blocks: Iterable[Block], checker: ContinuityGate | None = None) -> list[ContinuityResult]:
    checker = checker or gate()
    return [checker.check(one) for one in blocks]


def reasons(results: Iterable[ContinuityResult]) -> list[str | None]:
    """Return the reason of each result, or of the gap before it."""
    return [one.gap.reason if one.gap else one.reason for one in results]


def assert_gap(found: Gap | None, blocks: int, seconds: float, reason: str) -> None:
    assert found is not None
    assert (found.blocks, found.reason) == (blocks, reason)
    assert found.seconds == pytest.approx(seconds, abs=1e-5)


def test_successive_blocks_are_used_unchanged() -> None:
    blocks = [block(n) for n in range(20)]
    for one, sent in zip(check_all(blocks), blocks, strict=True):
        assert one.samples is sent.samples
        assert one.reason is None
        assert one.gap is None


def test_a_sender_may_start_at_any_sequence_number() -> None:
    assert reasons(check_all(block(n) for n in range(500, 503))) == [None, None, None]


def test_additional_channels_are_dropped() -> None:
    sent = block(0, names="xaybz")
    (one,) = check_all([sent])
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
def test_a_block_of_another_format_is_refused_and_changes_nothing(wrong: Block, reason: str) -> None:
    checker = gate()
    check_all([block(n) for n in range(3)], checker)
    before = checker.state_dict()
    found = checker.check(wrong)
    assert (found.samples, found.reason) == (None, reason)
    assert checker.state_dict() == before
    assert reasons(check_all([block(3), block(4)], checker)) == [None, None]


def test_a_rate_within_the_tolerance_is_used() -> None:
    assert reasons(check_all(block(n, rate=1.0009 * RATE) for n in range(5))) == [None] * 5


def test_a_refused_block_leaves_a_gap() -> None:
    found = check_all([block(0), block(1, names="ba"), block(2)])
    assert_gap(found[2].gap, 1, SECONDS, MISSING)


@given(missing=st.integers(1, 10**6))
def test_missing_blocks_are_counted_and_timed(missing: int) -> None:
    found = check_all([block(0), block(1), block(2 + missing), block(3 + missing)])
    assert reasons(found) == [None, None, MISSING, None]
    assert found[2].samples is not None
    assert_gap(found[2].gap, missing, missing * SECONDS, MISSING)


@given(order=st.lists(st.integers(0, 8), min_size=1, max_size=8))
def test_old_blocks_are_refused_however_often_they_arrive(order: list[int]) -> None:
    checker = gate()
    check_all([block(n) for n in range(10)], checker)
    assert reasons(check_all([block(n) for n in order], checker)) == [LATE] * len(order)
    assert reasons(check_all([block(10)], checker)) == [None]


def test_a_block_that_was_overtaken_is_refused() -> None:
    assert reasons(check_all(block(n) for n in (0, 1, 3, 2, 4))) == [None, None, MISSING, LATE, None]


def test_a_sender_that_restarts_leaves_a_gap() -> None:
    found = check_all([*(block(n) for n in range(5)), block(0, at(50)), block(1, at(51))])
    assert reasons(found)[5:] == [RESTARTED, None]
    assert_gap(found[5].gap, 0, 45 * SECONDS, RESTARTED)


def test_a_first_block_that_is_sent_again_is_a_duplicate() -> None:
    assert reasons(check_all(block(n) for n in (0, 0, 1, 2, 0, 3))) == [None, LATE, None, None, LATE, None]


def test_a_restart_whose_first_block_is_lost_costs_one_more_block() -> None:
    found = check_all([*(block(n) for n in range(50)), *(block(n, at(70 + n)) for n in range(1, 4))])
    assert reasons(found)[50:] == [LATE, RESTARTED, None]


@pytest.mark.parametrize("jump", [0.7, -0.7, 3600.0, -3600.0, 1e9, -1e9])
def test_a_clock_that_jumps_costs_one_block(jump: float) -> None:
    found = check_all(block(n, at(n) + (jump if n >= 30 else 0)) for n in range(60))
    assert reasons(found) == [None] * 30 + [CLOCK_JUMP, CLOCK_JUMP] + [None] * 28
    assert [one.samples is None for one in found[30:32]] == [True, False]
    assert_gap(found[31].gap, 1, SECONDS, CLOCK_JUMP)


@pytest.mark.parametrize("jump", [0.7, -0.7, 3600.0, -3600.0, 1e9, -1e9])
def test_a_single_wrong_time_costs_one_block(jump: float) -> None:
    found = check_all(block(n, at(n) + (jump if n == 30 else 0)) for n in range(60))
    assert reasons(found) == [None] * 30 + [CLOCK_JUMP, MISSING] + [None] * 28


@given(late=st.lists(st.floats(-0.24, 0.24), min_size=5, max_size=60))
def test_blocks_may_arrive_a_little_early_or_late(late: list[float]) -> None:
    assert reasons(check_all(block(n, at(n) + off) for n, off in enumerate(late))) == [None] * len(late)


def test_a_badly_timed_first_block_is_not_a_drift() -> None:
    times = [at(n) - (0.4 if n == 0 else 0) for n in range(300)]
    assert reasons(check_all(block(n, time) for n, time in enumerate(times))) == [None] * 300
    rng = np.random.default_rng(0)
    times = [time + rng.uniform(-0.2, 0.2) for time in times]
    assert WRONG_RATE not in reasons(check_all(block(n, time) for n, time in enumerate(times)))


def drifting(pace: float, blocks: int, seconds: float = SECONDS) -> list[Block]:
    """Return blocks that claim the expected rate while their samples arrive at another one."""
    count = round(RATE * seconds)
    samples = noise(2, count)
    return [Block("pump", n, START + n * pace * seconds, RATE, ("a", "b"), samples) for n in range(blocks)]


@pytest.mark.parametrize("seconds", [0.1, 1.0])
@pytest.mark.parametrize("pace", [0.5, 0.8, 0.95, 0.99, 0.997, 1.003, 1.01, 1.05, 1.2, 2.0])
def test_the_clock_reveals_another_sample_rate(pace: float, seconds: float) -> None:
    """The drift is detected when it exceeds the tolerance, and from then on no block is used."""
    until = 0.5 / abs(pace - 1) / seconds
    found = reasons(check_all(drifting(pace, 3 * math.ceil(until) + 10, seconds)))
    first = next(place for place, reason in enumerate(found) if reason is not None)
    assert until < first <= until + 2
    # If the drift takes only a few blocks, the first of them looks like a jump.
    assert set(found[first + 1 :]) == {WRONG_RATE}
    assert found[first] in ((WRONG_RATE,) if until > 8 else (WRONG_RATE, CLOCK_JUMP))


@pytest.mark.parametrize("pace", [0.9991, 1.0009, 1.00002])
def test_a_deviating_crystal_is_accepted_for_ever(pace: float) -> None:
    assert reasons(check_all(drifting(pace, 2500, 1.0))) == [None] * 2500


def test_blocks_are_used_again_once_the_rate_is_corrected() -> None:
    wrong = drifting(0.95, 150)
    end = wrong[-1].time + SECONDS
    right = [block(150 + n, end + n * SECONDS) for n in range(400)]
    found = check_all([*wrong, *right])
    first = reasons(found).index(WRONG_RATE)
    used = [place for place, one in enumerate(found) if place > first and one.samples is not None]
    assert 150 < used[0] < 150 + 250
    assert used == list(range(used[0], 550))
    assert_gap(found[used[0]].gap, used[0] - first, (used[0] - first) * SECONDS, WRONG_RATE)
    assert reasons(found)[used[0] + 1 :] == [None] * (549 - used[0])


def test_a_gap_does_not_shorten_the_observation_of_the_rate() -> None:
    wrong = drifting(0.95, 120)
    end = wrong[-1].time + SECONDS
    found = reasons(check_all([*wrong, *(block(125 + n, end + (5 + n) * SECONDS) for n in range(10))]))
    assert found[-10:] == [WRONG_RATE] * 10


ABSURD_BLOCKS = st.builds(
    block,
    st.sampled_from([0, 1, 35, 40, 41, 50, 10**4, 10**9, 10**18, MAX_SEQUENCE - 1]),
    st.sampled_from([0.0, at(0), at(20), at(39), at(40), at(41), at(60), at(10**4), 4e9, 2.5e11]),
)


@given(absurd=ABSURD_BLOCKS, place=st.integers(0, 40))
@settings(max_examples=400)
def test_no_single_block_suppresses_the_others(absurd: Block, place: int) -> None:
    """Whatever sequence number and time one block has, it costs at most one more block."""
    checker = gate()
    check_all([*(block(n) for n in range(place)), absurd], checker)
    after = check_all([block(n) for n in range(place, place + 30)], checker)
    assert sum(one.samples is None for one in after) <= 1
    assert reasons(after)[3:] == [None] * 27


@given(
    absurd_blocks=st.lists(st.tuples(st.integers(3, 60), ABSURD_BLOCKS), max_size=3, unique_by=lambda one: one[0] // 12)
)
def test_separate_absurd_blocks_cost_one_block_each(absurd_blocks: list[tuple[int, Block]]) -> None:
    strange = {place: absurd for place, absurd in absurd_blocks if abs(absurd.time - at(absurd.sequence)) > 1}
    checker, used = gate(), 0
    for n in range(80):
        if n in strange:
            checker.check(strange[n])
        used += checker.check(block(n)).samples is not None
    assert used >= 80 - len(strange)


EVENTS = st.sampled_from(["next", "next", "next", "next", "again", "lost", "jump", "restart", "order", "drift"])


def sender_blocks(events: list[str], seed: int) -> list[Block]:
    """Return the blocks of a sender with these events."""
    rng = np.random.default_rng(seed)
    sequence, time, blocks = 0, START, [block(0)]
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
def test_a_gate_resumes_from_its_state(events: list[str], seed: int, cut: int) -> None:
    blocks = sender_blocks(events, seed)
    whole, first, second = gate(), gate(), gate()
    expected = check_all(blocks, whole)
    check_all(blocks[:cut], first)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    rest = check_all(blocks[cut:], second)
    assert [(one.reason, one.gap) for one in rest] == [(one.reason, one.gap) for one in expected[cut:]]
    assert second.state_dict() == whole.state_dict()


@given(events=st.lists(EVENTS, max_size=40), seed=st.integers(0, 99))
def test_samples_used_without_a_gap_continue_the_previous_ones(events: list[str], seed: int) -> None:
    blocks = sender_blocks(events, seed)
    used = []
    for sent, one in zip(blocks, check_all(blocks), strict=True):
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


def test_a_reset_gate_accepts_any_block() -> None:
    checker = gate()
    check_all([block(n) for n in range(5)], checker)
    checker.reset()
    assert checker.state_dict() == gate().state_dict()
    assert reasons(check_all([block(0, START - 1e6), block(1, START - 1e6 + SECONDS)], checker)) == [None, None]


def test_a_state_that_does_not_fit_is_refused() -> None:
    checker = gate()
    check_all([block(0)], checker)
    before = checker.state_dict()
    line = before["line"]
    assert isinstance(line, dict)
    for wrong in ({"line": 3}, {"other": None}, {"line": {"next": 1}}, {"line": {**line, "next": "1"}}):
        with pytest.raises(BundleError, match="state does not fit this continuity gate"):
            checker.load_state_dict(wrong)
    assert checker.state_dict() == before


def test_a_state_of_version_0_1_0_still_loads() -> None:
    state = {
        "line": {
            "next": 3,
            "begun": START,
            "samples": 300,
            "offset": 4.768371580921027e-08,
            "halfway": 0.2,
            "rivals_from": None,
            "jump": 0.0,
            "lost": None,
            "probation": 0.0,
        },
        "rival": {
            "next": 4,
            "begun": START + 5000.3,
            "samples": 100,
            "offset": 0.0,
            "halfway": 0.0,
            "rivals_from": None,
            "jump": 4999.999999904632,
            "lost": {"blocks": 1, "seconds": 0.1, "reason": "clock jump"},
            "probation": 0.0,
        },
    }
    checker = gate()
    checker.load_state_dict(state)
    assert checker.state_dict() == state
    assert checker.check(block(4, at(4) + 5000)).gap == Gap(1, 0.1, CLOCK_JUMP)
