"""The online stage compared with a literal transcription of Algorithm 1."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.data.scenario import Condition
from cgsa.engines import layer_chain
from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.deviation import SHARES, UsualDeviation
from cgsa.nn.optim import make_adam
from cgsa.online.cgsa import Cgsa
from cgsa.online.checks import check_method
from tests.engines.models import raw_bundle
from tests.machines import BOTH, SCENARIO, bundle, manifest, stream_windows

LEARNING = {"queue": 20, "tau": 0.1, "min_confidence": 0.5}


@dataclass
class Algorithm1:
    """Algorithm 1 of the paper, line by line; only the network passes process a batch at a time.

    With several conditions, Delta is the largest of theirs.
    """

    source: ModelBundle
    W: int
    tau: float
    epsilon: float
    eta: float = 5e-4
    Q: deque[list[float]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.P = deepcopy(self.source.network)  # F_P, G_P: fixed
        self.D = deepcopy(self.source.require_discriminator())
        self.S = deepcopy(self.source.network).requires_grad_(requires_grad=True)  # F_S, G_S
        self.adam = make_adam(self.S.parameters(), self.eta)

    def step(self, X: Tensor) -> tuple[Tensor, list[float | None], list[bool]]:
        R: list[int] = []
        G_S = self.S(X)
        y_hat = torch.softmax(G_S.detach(), dim=1)
        with torch.no_grad():
            G_P = torch.softmax(self.P(X), dim=1)
            mu = self.D.mean(self.P.features(X))
        deviations: list[float | None] = []
        for i in range(len(X)):
            rho, mu_i = float(G_P[i].max()), mu[i].tolist()
            delta = None
            if len(self.Q) == self.W:
                means = [sum(column) / self.W for column in zip(*self.Q, strict=True)]
                delta = max(abs(one - mean) for one, mean in zip(mu_i, means, strict=True))
                if delta < self.tau and rho > self.epsilon:
                    R.append(i)
                self.Q.popleft()
            self.Q.append(mu_i)
            deviations.append(delta)
        if R:
            loss = sum((cross_entropy(G_S[i], G_P[i].argmax()) for i in R), start=torch.zeros(())) / len(R)
            self.adam.zero_grad()
            torch.autograd.backward(loss)
            self.adam.step()
        return y_hat, deviations, [i in R for i in range(len(X))]


def compare(
    sizes: list[int],
    queue: int,
    *,
    tau: float = 0.02,
    epsilon: float = 0.6,
    conditions: tuple[Condition, ...] = SCENARIO.conditions,
) -> int:
    """Run both over one stream in batches of these sizes; return how many windows were accepted."""
    source, windows = bundle(conditions=conditions), stream_windows()
    literal = Algorithm1(source, queue, tau, epsilon)
    ours = Cgsa(source, {"queue": queue, "tau": tau, "min_confidence": epsilon})
    total = 0
    for begin, end in pairwise(accumulate(sizes, initial=0)):
        x = windows.gather(slice(begin, end))
        predicted, deviations, accepted = literal.step(x)
        output = ours.step(x)
        assert output.accepted is not None
        assert torch.equal(output.probabilities, predicted)
        assert output.accepted.tolist() == accepted
        expected = torch.tensor([torch.nan if d is None else d for d in deviations], dtype=torch.float64)
        torch.testing.assert_close(output.evidence["deviation"], expected, rtol=0, atol=1e-12, equal_nan=True)
        total += sum(accepted)
    state = ours.state_dict()
    assert all(torch.equal(state[f"network.student.{name}"], weight) for name, weight in literal.S.named_parameters())
    return total


@pytest.mark.parametrize("queue", [1, 2, 50, 255, 256, 257, 300])
@pytest.mark.parametrize("size", [1, 7, 64, 255, 256])
def test_equals_algorithm_1(size: int, queue: int) -> None:
    batches = max(3, min(40, 700 // size))
    accepted = compare([size] * batches, queue)
    assert accepted > 0 or size * batches <= queue


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(1, 256), min_size=1, max_size=5), queue=st.integers(1, 300))
def test_equals_algorithm_1_with_any_batch_sizes(sizes: list[int], queue: int) -> None:
    compare(sizes, queue)


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(1, 256), min_size=1, max_size=5), queue=st.integers(1, 300))
def test_equals_algorithm_1_with_two_conditions(sizes: list[int], queue: int) -> None:
    compare(sizes, queue, conditions=BOTH.conditions)


def test_overlapping_windows_are_diagnosed_as_if_each_had_its_own_samples() -> None:
    shared, own = (Cgsa(raw_bundle(), LEARNING) for _ in range(2))
    for _, x in stream_windows().batches(200):
        ours, expected = shared.step(x), own.step(x.contiguous())
        assert torch.equal(ours.probabilities, expected.probabilities)
        assert ours.evidence.keys() == expected.evidence.keys()
        for name, values in ours.evidence.items():
            torch.testing.assert_close(values, expected.evidence[name], rtol=0, atol=0, equal_nan=True)


@pytest.fixture
def every_layer_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_chain, "MIN_BFLOAT16_WEIGHTS", 1)


@pytest.mark.usefixtures("every_layer_is_rounded")
def test_mixed_precision_fulfils_the_contract() -> None:
    check_method(Cgsa, raw_bundle(), {"queue": 20, "tau": 0.1, "min_confidence": 0.5, "engine": "mixed"})
    check_method(Cgsa, bundle(), {"queue": 20, "tau": 0.1, "min_confidence": 0.5, "engine": "mixed"})


@pytest.mark.usefixtures("every_layer_is_rounded")
@pytest.mark.parametrize("size", [1, 30, 256])
def test_mixed_precision_gives_nearly_the_same(size: int) -> None:
    settings_ = {"queue": 20, "tau": 0.1, "min_confidence": 0.5}
    exact, mixed = (Cgsa(raw_bundle(), {**settings_, "engine": engine}) for engine in ("float32", "mixed"))
    apart = []
    for _, x in islice(stream_windows().batches(size), -(-600 // size)):
        apart.append((exact.step(x).probabilities - mixed.step(x).probabilities).abs().flatten())
    assert 0 < float(torch.cat(apart).max()) < 0.05
    assert float(torch.cat(apart).mean()) < 0.002


def test_every_condition_has_its_response_and_all_have_one_deviation() -> None:
    method = Cgsa(bundle(conditions=BOTH.conditions), {"queue": 20})
    output = method.step(stream_windows().gather(slice(0, 100)))
    pairs = [(f"response_{name}", f"queue_mean_{name}") for name in ("torque", "speed")]
    assert set(output.evidence) == {*pairs[0], *pairs[1], "deviation", "confidence", "pseudo_label"}
    each = torch.stack([(output.evidence[one] - output.evidence[mean]).abs() for one, mean in pairs])
    torch.testing.assert_close(each.amax(dim=0), output.evidence["deviation"], equal_nan=True)
    assert method.state_dict()["memory.queue"].shape == (20, 2)


def test_fulfils_the_contract_with_two_conditions() -> None:
    check_method(Cgsa, bundle(conditions=BOTH.conditions), {"queue": 20, "tau": 0.1, "min_confidence": 0.5})


def test_an_empty_reliable_set_changes_no_weight() -> None:
    method = Cgsa(bundle(), {"queue": 1000})
    before = method.state_dict()
    for _, x in stream_windows().batches(200):
        output = method.step(x)
        assert output.accepted is not None
        after = method.state_dict()
        if after["memory.queue"].numel() < 1000:
            assert not output.accepted.any()
            assert all(torch.equal(before[name], after[name]) for name in before if name.startswith("network"))


def test_the_queue_persists_across_batches() -> None:
    method = Cgsa(bundle(), {"queue": 50, "tau": 1e9, "min_confidence": 0.0})
    windows = stream_windows()
    accepted = [method.step(windows.gather(slice(n * 30, n * 30 + 30))).accepted for n in range(3)]
    assert [int(a.sum()) for a in accepted if a is not None] == [0, 10, 30]


@pytest.mark.parametrize("settings_", [{"by_residual": False}, {"by_confidence": False}])
def test_ablations_are_settings(settings_: dict[str, object]) -> None:
    method = Cgsa(bundle(), settings_)
    output = method.step(stream_windows().gather(slice(0, 256)))
    assert output.accepted is not None
    deviation, confidence = output.evidence["deviation"], output.evidence["confidence"]
    expected = confidence > 0.9 if "by_residual" in settings_ else deviation < 0.05
    assert torch.equal(output.accepted, expected)


def test_paper_settings_are_the_defaults() -> None:
    config = Cgsa(bundle()).config
    assert (config.lr, config.queue, config.tau, config.min_confidence) == (5e-4, 50, 0.05, 0.9)


def test_needs_a_discriminator() -> None:
    source = bundle()
    without = ModelBundle(manifest(objective="plain"), source.network, None)
    with pytest.raises(BundleError, match="no condition discriminator: it was trained with objective 'plain'"):
        Cgsa(without)


def test_invalid_settings_are_rejected() -> None:
    with pytest.raises(ConfigError, match="queue 0"):
        Cgsa(bundle(), {"queue": 0})


def test_a_state_of_another_model_is_rejected() -> None:
    method = Cgsa(bundle())
    state = method.state_dict()
    name = "network.student.G.0.weight"
    with pytest.raises(BundleError, match=r"network\.student\.G\.0\.weight of shape \(3, 2\) instead of \(3, 8\)"):
        method.load_state_dict({**state, name: state[name][:, :2]})
    del state["memory.queue"]
    with pytest.raises(BundleError, match=r"state does not fit this method: no memory\.queue"):
        method.load_state_dict(state)


def test_the_graph_engine_fulfils_the_contract() -> None:
    for source in (bundle(), raw_bundle(), bundle(conditions=BOTH.conditions)):
        check_method(Cgsa, source, {**LEARNING, "engine": "graph"})


def test_engines_take_over_from_each_other() -> None:
    batches = [x for _, x in stream_windows().batches(150)]
    names = ("float32", "graph")
    methods = {engine: Cgsa(raw_bundle(), {**LEARNING, "engine": engine}) for engine in names}
    for x in batches[:2]:
        for method in methods.values():
            method.step(x)
    exact, recorded = (methods[engine].state_dict() for engine in names)
    assert exact.keys() == recorded.keys()
    for engine, state in zip(names, (recorded, exact), strict=True):
        methods[engine].load_state_dict(state)
    torch.testing.assert_close(*(methods[engine].step(batches[2]).probabilities for engine in names))


def test_a_student_that_never_learned_has_no_optimiser_state() -> None:
    method = Cgsa(bundle(), {"queue": 1000, "engine": "graph"})
    method.step(stream_windows().gather(slice(0, 100)))
    state = method.state_dict()
    assert not [name for name in state if name.startswith("optimizer")]
    assert state["memory.queue"].shape == (100, 1)
    method.load_state_dict(state)


def test_a_shorter_queue_keeps_the_last_responses() -> None:
    long, short = (Cgsa(bundle(), {**LEARNING, "engine": "graph", "queue": queue}) for queue in (50, 20))
    long.step(stream_windows().gather(slice(0, 100)))
    short.load_state_dict(long.state_dict())
    assert torch.equal(short.state_dict()["memory.queue"], long.state_dict()["memory.queue"][-20:])


def with_usual_deviation(largest: float) -> ModelBundle:
    """A bundle whose training windows deviate evenly, up to this much."""
    found, usual = bundle(), UsualDeviation(100, (0.1,), tuple(largest * share for share in SHARES))
    return replace(found, manifest=replace(found.manifest, usual_deviation=usual))


def test_tau_auto_is_the_quantile_that_the_bundle_carries() -> None:
    known = with_usual_deviation(0.2)
    assert Cgsa(known, {"tau": "auto"}).gate.tau == pytest.approx(0.1)
    assert Cgsa(known, {"tau": "auto", "auto_share": 0.8}).gate.tau == pytest.approx(0.16)
    assert Cgsa(known).gate.tau == 0.05
    windows = stream_windows().gather(slice(0, 200))
    by_word, by_number = (Cgsa(known, {"tau": tau, "queue": 20}) for tau in ("auto", 0.1))
    assert torch.equal(by_word.step(windows).probabilities, by_number.step(windows).probabilities)
    assert torch.equal(by_word.predict(windows), by_number.predict(windows))


def test_tau_auto_needs_a_bundle_that_knows_its_deviation() -> None:
    with pytest.raises(BundleError, match="an older version wrote it"):
        Cgsa(bundle(), {"tau": "auto"})
    with pytest.raises(BundleError, match="its discriminator is dead"):
        Cgsa(with_usual_deviation(0.0), {"tau": "auto"})


def test_tau_is_a_number_or_auto() -> None:
    with pytest.raises(ConfigError, match="tau: expected a number, or 'auto', got 'atuo'"):
        Cgsa(bundle(), {"tau": "atuo"})
    with pytest.raises(ConfigError, match="expected queue >= 1"):
        Cgsa(bundle(), {"tau": "auto", "auto_share": 0.0})
