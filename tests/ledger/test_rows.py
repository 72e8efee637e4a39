from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.diagnosis.diagnoser import Diagnoser, WindowDiagnoses
from cgsa.diagnosis.labelled import run_stream
from cgsa.engines.base import ResponseQueue
from cgsa.errors import DataError
from cgsa.ledger.columns import FIXED, Columns, LabelColumn
from cgsa.ledger.rows import (
    DEVIATES,
    LEARNT,
    NEITHER,
    NEVER_LEARNS,
    NOT_CHOSEN,
    NOT_CONFIDENT,
    REASONS,
    WARMING_UP,
    Reasons,
    describe,
    gate_reasons,
    reasons,
)
from cgsa.online.base import StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.checks import example_batches
from cgsa.online.gate import ReliabilityGate
from cgsa.online.source import FrozenSource
from cgsa.online.surgeon import Surgeon
from cgsa.online.tent_full import TentFull
from tests.machines import BOTH, CLASSES, RATE, SPEC, bundle, stream_windows
from tests.online.models import varied_bundle


def words(told: Reasons) -> list[str]:
    codes, names = told
    return [names[code] for code in codes.tolist()]


def column_words(columns: Columns, name: str) -> list[str]:
    column = columns[name]
    assert isinstance(column, LabelColumn)
    return [column.labels[code] for code in column.codes]


def literal_reasons(response: list[float], confidence: list[float], gate: ReliabilityGate) -> list[str]:
    """Algorithm 1, one window at a time, saying aloud why a window is left out."""
    queue: deque[float] = deque()
    told = []
    for mu, rho in zip(response, confidence, strict=True):
        failed = []
        if gate.by_residual and len(queue) < gate.capacity:
            failed.append(WARMING_UP)
        elif gate.by_residual and not abs(mu - sum(queue) / gate.capacity) < gate.tau:
            failed.append(DEVIATES)
        if gate.by_confidence and not rho > gate.min_confidence:
            failed.append(NOT_CONFIDENT)
        if len(queue) == gate.capacity:
            queue.popleft()
        queue.append(mu)
        if WARMING_UP in failed:
            told.append(WARMING_UP)
        elif len(failed) == 2:
            told.append(NEITHER)
        else:
            told.append(failed[0] if failed else LEARNT)
    return told


@given(
    queue=st.integers(1, 20),
    sizes=st.lists(st.integers(1, 64), min_size=1, max_size=4),
    by_residual=st.booleans(),
    by_confidence=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_reasons_equal_the_loop(
    *, queue: int, sizes: list[int], by_residual: bool, by_confidence: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Sixteenths add up without rounding, so that loop and running sum agree to the last bit.
    response = torch.randint(-16, 17, (sum(sizes),), generator=generator) / 16
    confidence = torch.rand(sum(sizes), generator=generator)
    gate = ReliabilityGate(queue, 0.5, 0.5, by_residual=by_residual, by_confidence=by_confidence)
    held, told = ResponseQueue.empty(queue, 1), []
    for r, c in zip(torch.split(response, sizes), torch.split(confidence, sizes), strict=True):
        selection, held = gate.select(held, r[:, None], c)
        found = words(gate_reasons(selection.accepted, selection.deviation, c, gate))
        assert [reason == LEARNT for reason in found] == selection.accepted.tolist()
        told += found
    assert told == literal_reasons(response.tolist(), confidence.tolist(), gate)


def test_a_stream_meets_every_reason() -> None:
    method = Cgsa(varied_bundle(), {"queue": 20, "tau": 0.02, "min_confidence": 0.6})
    outputs = [method.step(x) for x in example_batches(method.bundle)]
    told = [word for output in outputs for word in words(reasons(method, output))]
    evidence = {name: torch.cat([output.evidence[name] for output in outputs]) for name in ("response", "confidence")}
    assert told == literal_reasons(evidence["response"].tolist(), evidence["confidence"].tolist(), method.gate)
    assert set(told) == {LEARNT, WARMING_UP, DEVIATES, NOT_CONFIDENT, NEITHER}


def test_a_window_that_fails_nothing_and_was_still_left_out_was_not_chosen() -> None:
    """Of a method with further criteria than the gate's, nothing is claimed that is not so."""
    left_out = torch.tensor([False])
    told = gate_reasons(left_out, torch.tensor([0.0]), torch.tensor([1.0]), ReliabilityGate())
    assert words(told) == [NOT_CHOSEN]


def test_other_methods_learn_choose_or_never_do() -> None:
    source = varied_bundle()
    batch = example_batches(source)[0]
    for method in (FrozenSource(source), TentFull(source), Surgeon(source, {"margin": 0.6})):
        output = method.step(batch)
        told = words(reasons(method, output))
        if output.accepted is None:
            assert told == [NEVER_LEARNS] * len(batch)
        else:
            assert told == [LEARNT if accepted else NOT_CHOSEN for accepted in output.accepted.tolist()]
    assert {LEARNT, NOT_CHOSEN} == set(told)


class Moody(FrozenSource):
    """Tells its own reasons, and gives the evidence that a test asks for."""

    evidence: tuple[str, ...] = ()

    def _step(self, x: Tensor) -> StepOutput:
        return StepOutput(self.predict(x), evidence=dict.fromkeys(self.evidence, torch.ones(len(x))))

    def reasons(self, output: StepOutput) -> Reasons:
        return torch.arange(len(output.probabilities)) % 2, ("no mood", "a mood")


def test_a_method_may_tell_its_own_reasons() -> None:
    method = Moody(bundle())
    output = method.step(example_batches(method.bundle)[0][:3])
    assert words(reasons(method, output)) == ["no mood", "a mood", "no mood"]


def test_rows_hold_what_the_method_said() -> None:
    written: list[Columns] = []
    windows = stream_windows()
    method = Cgsa(bundle(), {"tau": 0.02, "min_confidence": 0.5})
    trace = run_stream(Diagnoser(method), windows, batch_size=100, on_rows=written.append)
    assert trace.accepted is not None

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(columns[name]) for columns in written])

    assert set(written[0]) == {*FIXED, "response", "queue_mean", "deviation", "label_confidence", "pseudo_label"}
    np.testing.assert_array_equal(joined("window"), np.arange(len(windows)))
    np.testing.assert_array_equal(joined("time"), windows.starts.numpy() / RATE)
    np.testing.assert_array_equal(joined("accepted"), trace.accepted)
    np.testing.assert_array_equal(joined("confidence"), trace.confidence.astype(np.float32))
    for name, column in (("deviation", "deviation"), ("confidence", "label_confidence"), ("pseudo_label",) * 2):
        assert joined(column).dtype == np.float32
        np.testing.assert_array_equal(joined(column), trace.evidence[name].astype(np.float32))
    verdicts = [word for columns in written for word in column_words(columns, "verdict")]
    assert verdicts == [CLASSES[index] for index in trace.prediction]
    told = [word for columns in written for word in column_words(columns, "reason")]
    assert [word == LEARNT for word in told] == trace.accepted.tolist()
    assert set(told) <= set(REASONS)


def test_rows_hold_the_response_to_every_condition() -> None:
    written: list[Columns] = []
    method = Cgsa(bundle(conditions=BOTH.conditions), {"queue": 20})
    run_stream(Diagnoser(method), stream_windows(), batch_size=100, on_rows=written.append)
    pairs = {f"{what}_{name}" for what in ("response", "queue_mean") for name in ("torque", "speed")}
    assert set(written[0]) == {*FIXED, *pairs, "deviation", "label_confidence", "pseudo_label"}
    told = {word for columns in written for word in column_words(columns, "reason")}
    assert told <= set(REASONS)


@pytest.mark.parametrize("evidence", [("time",), ("confidence", "label_confidence")])
def test_evidence_cannot_take_the_name_of_a_column(evidence: tuple[str, ...]) -> None:
    method = Moody(bundle())
    method.evidence = evidence
    with pytest.raises(DataError, match="must give it another name"):
        run_stream(Diagnoser(method), stream_windows(), batch_size=64, on_rows=print)


class Confused(FrozenSource):
    """Has more reasons than words for them."""

    def reasons(self, output: StepOutput) -> Reasons:
        return torch.arange(len(output.probabilities)), ("a", "b")


def test_a_reason_that_is_not_among_the_words_is_refused() -> None:
    diagnosed = WindowDiagnoses(StepOutput(torch.eye(3)), None)
    with pytest.raises(DataError, match="codes from 0 to 2 for 2 labels; expected 0 to 1"):
        Diagnoser(Confused(bundle())).rows(diagnosed, first=0, time=np.zeros(3), source="here")


def test_a_ledger_is_told_method_and_model() -> None:
    about = describe(Cgsa(bundle(seed=3), {"tau": 0.02}, seed=5), "cgsa", batch_size=64)
    assert (about.method, about.settings["tau"], about.seed, about.batch_size) == ("cgsa", 0.02, 5, 64)
    assert (about.scenario, about.objective, about.model_seed) == ("toy", "cal", 3)
    assert (about.classes, about.seconds_per_window) == (CLASSES, SPEC.step / RATE)
