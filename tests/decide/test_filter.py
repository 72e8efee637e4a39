from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.decide.filter import (
    FilterConfig,
    FilterOutput,
    StateFilter,
    expected_delay,
    false_alarms_for_delay,
)
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.metrics.detection import false_alarms


class LiteralFilter:
    """Both chains, one window at a time, over plain lists."""

    def __init__(
        self, config: FilterConfig, states: int, window_seconds: float, hop: float, temperature: float
    ) -> None:
        self.config, self.states, self.hop, self.temperature = config, states, hop, temperature
        self.onset = config.false_alarms_per_day * window_seconds / 86_400
        self.alarm = [config.start_healthy] + [(1 - config.start_healthy) / (states - 1)] * (states - 1)
        self.verdicts = [self.alarm] * round(1 / hop)

    def move(self, belief: list[float], chance: float) -> list[float]:
        moved = [0.0] * self.states
        for begin in range(self.states):
            leave = chance if begin == 0 else chance * self.config.repair
            for end in range(self.states):
                moved[end] += belief[begin] * (1 - leave if end == begin else leave / (self.states - 1))
        return moved

    def see(self, belief: list[float], evidence: list[float], share: float) -> list[float]:
        seen = [b * e**share for b, e in zip(belief, evidence, strict=True)]
        return [s / sum(seen) for s in seen]

    def window(self, probabilities: list[float]) -> tuple[list[float], list[float]]:
        powers = [p ** (1 / self.temperature) for p in probabilities]
        evidence = [max(p / sum(powers), self.config.least_probability) for p in powers]
        change = self.config.verdict_change
        verdict = self.see(self.move(self.verdicts[0], change), evidence, 1.0)
        self.alarm = self.see(self.move(self.alarm, self.onset * self.hop), evidence, self.hop)
        latest = self.see(self.move(self.verdicts[-1], change * self.hop), evidence, self.hop)
        self.verdicts = [*self.verdicts[1:], latest]
        return verdict, self.alarm

    def step(self, probabilities: Tensor) -> FilterOutput:
        posteriors = [self.window(row) for row in probabilities.tolist()]
        verdict, alarm = (torch.tensor(rows, dtype=torch.float64) for rows in zip(*posteriors, strict=True))
        return FilterOutput(verdict, alarm)


def random_probabilities(windows: int, states: int, sharpness: float, seed: int) -> Tensor:
    """Runs of one class, the sharpest of which are exactly 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    length = int(torch.randint(1, 20, (), generator=generator))
    favoured = torch.randint(0, states, (windows // length + 1,), generator=generator).repeat_interleave(length)
    logits = torch.randn(windows, states, generator=generator, dtype=torch.float64)
    logits[torch.arange(windows), favoured[:windows]] += 1.0
    return torch.softmax(sharpness * logits, dim=1)


def certain(classes: list[int], states: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(classes), states).double()


def assert_close(ours: FilterOutput, expected: FilterOutput) -> None:
    torch.testing.assert_close(ours.posterior, expected.posterior, rtol=0, atol=1e-9)
    torch.testing.assert_close(ours.alarm_posterior, expected.alarm_posterior, rtol=0, atol=1e-9)


def concatenate(parts: list[FilterOutput]) -> FilterOutput:
    return FilterOutput(
        torch.cat([part.posterior for part in parts]), torch.cat([part.alarm_posterior for part in parts])
    )


def alarms(alarm: Tensor) -> Tensor:
    return alarm[:, 0] < 0.5


def first(found: Tensor) -> int:
    """The first place that holds, or one past the last."""
    return int(found.int().argmax()) if bool(found.any()) else len(found)


@given(
    states=st.integers(2, 8),
    steps=st.integers(1, 64),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    temperature=st.floats(0.3, 4.0),
    rate=st.floats(1e-3, 1e5),
    sharpness=st.sampled_from([0.1, 1.0, 10.0, 1e4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_filter_equals_a_loop_for_any_batches(
    *, states: int, steps: int, sizes: list[int], temperature: float, rate: float, sharpness: float, seed: int
) -> None:
    config = FilterConfig(false_alarms_per_day=rate)
    probabilities = random_probabilities(sum(sizes), states, sharpness, seed)
    fast = StateFilter(config, states=states, window_seconds=0.08, hop=1 / steps, temperature=temperature)
    slow = LiteralFilter(config, states, 0.08, 1 / steps, temperature)
    expected = slow.step(probabilities)
    assert_close(concatenate([fast.step(part) for part in torch.split(probabilities, sizes)]), expected)
    fast.reset()
    assert_close(fast.step(probabilities), expected)


def test_the_alarm_chain_may_use_its_own_evidence() -> None:
    quick, patient = (random_probabilities(200, 4, 2.0, seed=seed) for seed in (1, 2))
    filters = [StateFilter(FilterConfig(), states=4, window_seconds=0.08, hop=1 / 8) for _ in range(3)]
    both = filters[0].step(quick, patient)
    torch.testing.assert_close(both.posterior, filters[1].step(quick).posterior, rtol=0, atol=1e-12)
    torch.testing.assert_close(both.alarm_posterior, filters[2].step(patient).alarm_posterior, rtol=0, atol=1e-12)


@pytest.mark.parametrize("hop", [0.3, 0.4, 0.7])
def test_hops_that_do_not_divide_the_window(hop: float) -> None:
    probabilities = random_probabilities(100, 3, 2.0, seed=1)
    fast = StateFilter(FilterConfig(), states=3, window_seconds=1.0, hop=hop)
    assert_close(fast.step(probabilities), LiteralFilter(FilterConfig(), 3, 1.0, hop, 1.0).step(probabilities))


@given(states=st.integers(2, 8), steps=st.integers(1, 64), cut=st.integers(1, 119), seed=st.integers(0, 2**32 - 1))
def test_the_filter_resumes_with_bit_identical_results(states: int, steps: int, cut: int, seed: int) -> None:
    probabilities = random_probabilities(120, states, 3.0, seed)
    one, other = (StateFilter(FilterConfig(), states=states, window_seconds=0.08, hop=1 / steps) for _ in range(2))
    one.step(probabilities[:cut])
    state = one.state_dict()
    expected = one.step(probabilities[cut:])
    other.load_state_dict(state)
    ours = other.step(probabilities[cut:])
    assert torch.equal(ours.posterior, expected.posterior)
    assert torch.equal(ours.alarm_posterior, expected.alarm_posterior)
    assert all(torch.equal(other.state_dict()[name], tensor) for name, tensor in one.state_dict().items())


def test_states_and_outputs_are_copies() -> None:
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=0.08, hop=0.25)
    start = state_filter.state_dict()
    before = {name: tensor.clone() for name, tensor in start.items()}
    out = state_filter.step(random_probabilities(10, 3, 3.0, seed=0))
    after = state_filter.state_dict()
    out.alarm_posterior.zero_()
    out.posterior.zero_()
    assert all(torch.equal(state_filter.state_dict()[name], tensor) for name, tensor in after.items())
    state_filter.load_state_dict(start)
    state_filter.step(random_probabilities(10, 3, 3.0, seed=0))
    assert all(torch.equal(start[name], tensor) for name, tensor in before.items())


def test_a_million_extreme_windows_stay_finite() -> None:
    generator = torch.Generator().manual_seed(0)
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=0.08, hop=1 / 64)
    # Long runs of one certain class, then certain classes in any order, then windows that say nothing.
    runs = certain([0, 1, 2, 0, 1], 3).repeat_interleave(100_000, dim=0)
    mixed = certain(torch.randint(0, 3, (400_000,), generator=generator).tolist(), 3)
    blank = torch.full((100_000, 3), 1 / 3, dtype=torch.float64)
    for part in torch.split(torch.cat([runs, mixed, blank]), 250_000):
        out = state_filter.step(part)
        for posterior in (out.posterior, out.alarm_posterior):
            assert bool(torch.isfinite(posterior).all())
            assert float(posterior.min()) >= 0
            torch.testing.assert_close(posterior.sum(dim=1), posterior.new_ones(len(posterior)), rtol=0, atol=1e-12)


def test_extreme_settings_stay_finite() -> None:
    config = FilterConfig(
        false_alarms_per_day=1e-9, verdict_change=0.999, repair=1e-6, start_healthy=1.0, least_probability=1e-12
    )
    probabilities = certain([0, 1] * 500 + [0] * 5000 + [1] * 5000 + [2] * 5000, 3)
    state_filter = StateFilter(config, states=3, window_seconds=0.01, hop=1.0)
    expected = LiteralFilter(config, 3, 0.01, 1.0, 1.0).step(probabilities)
    assert_close(state_filter.step(probabilities), expected)


@given(
    states=st.integers(2, 8),
    steps=st.integers(1, 16),
    rates=st.tuples(st.floats(1e-3, 1e5), st.floats(1e-3, 1e5)),
    seed=st.integers(0, 2**32 - 1),
)
def test_allowing_more_false_alarms_never_delays_an_alarm(
    states: int, steps: int, rates: tuple[float, float], seed: int
) -> None:
    probabilities = random_probabilities(300, states, 2.0, seed)
    seldom, often = (
        StateFilter(FilterConfig(false_alarms_per_day=rate), states=states, window_seconds=0.08, hop=1 / steps)
        for rate in sorted(rates)
    )
    assert first(alarms(often.step(probabilities).alarm_posterior)) <= first(
        alarms(seldom.step(probabilities).alarm_posterior)
    )


@pytest.mark.parametrize("states", [2, 4, 8])
@pytest.mark.parametrize("hop", [1.0, 0.5, 1 / 64])
def test_the_posterior_follows_a_clear_change_at_once(states: int, hop: float) -> None:
    classes = [0] * 300 + [1] * 300 + [states - 1] * 300 + [0] * 300
    out = StateFilter(FilterConfig(), states=states, window_seconds=0.08, hop=hop).step(certain(classes, states))
    assert out.posterior.argmax(dim=1).tolist() == classes


@pytest.mark.parametrize("hop", [1.0, 0.25, 1 / 64])
def test_isolated_wrong_windows_raise_no_alarm(hop: float) -> None:
    apart = 4
    classes = ([0] * apart + [1] + [0] * apart + [2]) * 200
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=0.08, hop=hop)
    assert not bool(alarms(state_filter.step(certain(classes, 3)).alarm_posterior).any())
    # A fault that stays does, and so does not hide behind the same caution.
    assert bool(alarms(state_filter.step(certain([1] * round(10 / hop), 3)).alarm_posterior)[-1])


def test_isolated_healthy_windows_clear_no_alarm() -> None:
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=0.08, hop=0.25)
    state_filter.step(certain([0] * 100 + [1] * 100, 3))
    out = state_filter.step(certain(([1] * 4 + [0]) * 200, 3))
    assert bool((out.alarm_posterior.argmax(dim=1) == 1).all())


def test_the_evidence_of_a_window_is_bounded() -> None:
    odds = []
    for given_probabilities in ([0.0, 1.0], [0.5, 0.5]):
        state_filter = StateFilter(FilterConfig(least_probability=0.01), states=2, window_seconds=1.0, hop=1.0)
        healthy, fault = state_filter.step(torch.tensor([given_probabilities])).alarm_posterior[0].tolist()
        odds.append(fault / healthy)
    assert odds[0] / odds[1] == pytest.approx(1 / 0.01)


def calibrated(windows: int, states: int, strength: float, generator: torch.Generator) -> Tensor:
    """What a healthy machine makes a model say that knows the noise: each class shifts its own reading."""
    reading = torch.randn(windows, states, generator=generator, dtype=torch.float64)
    reading[:, 0] += strength
    return torch.softmax(strength * reading, dim=1)


@pytest.mark.parametrize("states", [2, 4])
@pytest.mark.parametrize("strength", [1.0, 2.0, 4.0])
def test_false_alarms_do_not_exceed_the_target_rate(states: int, strength: float) -> None:
    windows, wanted = 100_000, 100
    config = FilterConfig(false_alarms_per_day=wanted / windows * 86_400)
    state_filter = StateFilter(config, states=states, window_seconds=1.0, hop=1.0)
    out = state_filter.step(calibrated(windows, states, strength, torch.Generator().manual_seed(0)))
    state = alarms(out.alarm_posterior).long().numpy()
    assert false_alarms(state, np.zeros(windows, dtype=np.int64)) <= wanted


@pytest.mark.parametrize("strength", [0.1, 0.3, 1.0, 3.0])
def test_the_first_false_alarm_is_rare_even_with_weak_evidence(strength: float) -> None:
    """The probability of one within n windows is at most n h (Doob)."""
    streams, windows, chance = 300, 300, 1e-3
    config = FilterConfig(false_alarms_per_day=chance * 86_400, start_healthy=1.0)
    state_filter = StateFilter(config, states=2, window_seconds=1.0, hop=1.0)
    generator = torch.Generator().manual_seed(0)
    alarmed = 0
    for _ in range(streams):
        state_filter.reset()
        alarmed += bool(alarms(state_filter.step(calibrated(windows, 2, strength, generator)).alarm_posterior).any())
    assert alarmed <= streams * windows * chance


@pytest.mark.parametrize("evidence", [0.1, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("rate", [0.01, 0.5, 50.0])
@pytest.mark.parametrize("states", [2, 5])
def test_the_alarm_comes_after_the_expected_delay(evidence: float, rate: float, states: int) -> None:
    config = FilterConfig(false_alarms_per_day=rate, repair=1e-9, start_healthy=1.0, least_probability=1e-12)
    # The evidence favours one fault over health and all other faults equally.
    odds = torch.ones(states, dtype=torch.float64)
    odds[1] = math.exp(evidence)
    out = StateFilter(config, states=states, window_seconds=0.5, hop=1.0).step((odds / odds.sum()).repeat(1000, 1))
    windows = expected_delay(config, evidence=evidence, window_seconds=0.5, states=states) / 0.5
    assert first(out.alarm_posterior[:, 1] > out.alarm_posterior[:, 0]) + 1 == math.ceil(windows)


@given(
    delay=st.floats(0.05, 50.0),
    evidence=st.floats(0.01, 9.0),
    window_seconds=st.floats(0.05, 2.0),
    states=st.integers(2, 8),
)
def test_a_desired_delay_gives_the_false_alarm_rate(
    delay: float, evidence: float, window_seconds: float, states: int
) -> None:
    rate = false_alarms_for_delay(delay, evidence=evidence, window_seconds=window_seconds, states=states)
    assert 0 <= rate < 86_400 / window_seconds
    if rate > 1e-200:
        config = FilterConfig(false_alarms_per_day=rate)
        again = expected_delay(config, evidence=evidence, window_seconds=window_seconds, states=states)
        assert again == pytest.approx(delay, rel=1e-6)


def test_a_longer_delay_and_more_evidence_reduce_false_alarms() -> None:
    rates = [false_alarms_for_delay(delay, evidence=1.0, window_seconds=0.1) for delay in (0.5, 1.0, 2.0)]
    assert rates == sorted(rates, reverse=True)
    delays = [expected_delay(FilterConfig(), evidence=e, window_seconds=0.1) for e in (0.5, 1.0, 5.0)]
    assert delays == sorted(delays, reverse=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"false_alarms_per_day": 0.0},
        {"false_alarms_per_day": math.inf},
        {"verdict_change": 1.0},
        {"repair": 0.0},
        {"repair": 1.5},
        {"start_healthy": math.nan},
        {"least_probability": 0.5},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} .*; expected"):
        FilterConfig(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": 1}, "1 states at hop 0.5; expected at least 2"),
        ({"hop": 0.0}, "hop 0; expected"),
        ({"hop": 1.5}, "hop 1.5; expected"),
        ({"window_seconds": 0.0}, "windows of 0 s; expected"),
        ({"temperature": 0.0}, "temperature 0; expected"),
        ({"window_seconds": 1e6}, "expected less than one false alarm per window"),
        ({"window_seconds": 1e-100}, "expected less extreme ones"),
        ({"states": 10_000}, "least_probability 0.0001 for 10000 states; expected below 0.0001"),
    ],
)
def test_invalid_filters_are_refused(change: dict[str, float], message: str) -> None:
    given_settings = {"states": 3, "window_seconds": 1.0, "hop": 0.5} | change
    with pytest.raises(ConfigError, match=message):
        StateFilter(FilterConfig(), **given_settings)  # type: ignore[arg-type]


def test_invalid_delays_are_refused() -> None:
    with pytest.raises(ConfigError, match="evidence 0 for 2 states; expected above 0"):
        expected_delay(FilterConfig(), evidence=0.0, window_seconds=1.0)
    with pytest.raises(ConfigError, match="delay 0 s with windows of 1 s; expected above 0"):
        false_alarms_for_delay(0.0, evidence=1.0, window_seconds=1.0)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (torch.ones(4, 2) / 2, r"shape \(4, 2\); expected \(windows, 3\)"),
        (torch.empty(0, 3), r"shape \(0, 3\); expected"),
        (torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), "1 of 2 windows have no probabilities"),
        (torch.tensor([[torch.nan, 0.5, 0.5]]), "1 of 1 windows have no probabilities"),
        (torch.tensor([[-1.0, 1.0, 1.0]]), "1 of 1 windows have no probabilities"),
    ],
)
def test_invalid_probabilities_raise_and_change_nothing(probabilities: Tensor, message: str) -> None:
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=1.0, hop=0.5)
    before = state_filter.state_dict()
    with pytest.raises(DataError, match=message):
        state_filter.step(probabilities)
    assert all(torch.equal(state_filter.state_dict()[name], tensor) for name, tensor in before.items())


def test_a_state_of_another_filter_is_refused() -> None:
    state_filter = StateFilter(FilterConfig(), states=3, window_seconds=1.0, hop=0.5)
    other = StateFilter(FilterConfig(), states=3, window_seconds=1.0, hop=0.25)
    with pytest.raises(BundleError, match=r"verdicts of shape \(4, 3\) instead of \(2, 3\)"):
        state_filter.load_state_dict(other.state_dict())
    with pytest.raises(BundleError, match="no alarm; no verdicts"):
        state_filter.load_state_dict({})
