from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.events import NO_DATA
from cgsa.ledger.columns import LabelColumn
from cgsa.online.cgsa import Cgsa
from cgsa.online.source import FrozenSource
from tests.machines import CLASSES, bundle, stream_windows

SPAN = (1.0, 2.5)


def deciding(method: Cgsa | FrozenSource) -> Diagnoser:
    return Diagnoser(method, DecisionMaker(FilterConfig(), method.bundle.manifest))


def test_the_event_of_a_batch() -> None:
    diagnoser = deciding(Cgsa(bundle()))
    batch = diagnoser.step(stream_windows().gather(slice(0, 100)))
    event = diagnoser.event(batch, number=3, source="here", span=SPAN, flagged={"clipped": 2})
    assert (event.batch, event.begin, event.end, event.windows) == (3, 1.0, 2.5, 102)
    assert event.verdict == max(event.probabilities, key=lambda name: event.probabilities[name])
    assert set(event.probabilities) == set(CLASSES)
    assert event.state in CLASSES
    assert event.trust is not None
    text = json.loads(event.to_json())
    assert (text["event"], text["version"], text["source"]) == ("diagnosis", 1, "here")


def test_without_a_decision_there_is_neither_state_nor_trust() -> None:
    diagnoser = Diagnoser(FrozenSource(bundle()))
    batch = diagnoser.step(stream_windows().gather(slice(0, 100)))
    event = diagnoser.event(batch, number=0, source="here", span=SPAN)
    assert (event.accepted, event.deviation, event.state, event.trust) == (None, None, None, None)


def test_a_batch_without_accepted_windows_has_no_data() -> None:
    event = deciding(Cgsa(bundle())).event(None, number=0, source="here", span=SPAN, flagged={"flat line": 7})
    assert (event.state, event.verdict, event.windows, event.probabilities) == (NO_DATA, NO_DATA, 7, {})


def test_without_learning_nothing_changes_and_the_reason_is_stated() -> None:
    source = bundle()
    ours = deciding(Cgsa(source, {"tau": 1e9, "min_confidence": 0.0, "queue": 1, "lr": 0.1}))
    before = ours.method.state_dict()
    x = stream_windows().gather(slice(0, 100))
    batch = ours.step(x, learn=False)
    assert all(torch.equal(before[name], tensor) for name, tensor in ours.method.state_dict().items())
    reason = ours.rows(batch, first=0, time=np.zeros(100), source="here", paused="frozen")["reason"]
    assert isinstance(reason, LabelColumn)
    assert reason.labels == ("frozen",)
    trust = ours.event(batch, number=0, source="here", span=SPAN, paused="frozen").trust
    assert trust is not None
    assert trust.note == "frozen: 100 windows diagnosed, none used for learning"
    ours.step(x)
    assert any(not torch.equal(before[name], tensor) for name, tensor in ours.method.state_dict().items())


@pytest.mark.parametrize("method", [Cgsa, FrozenSource])
def test_the_decision_sees_every_batch_once(method: type[Cgsa | FrozenSource]) -> None:
    windows = stream_windows()
    ours, decision = deciding(method(bundle())), DecisionMaker(FilterConfig(), bundle().manifest)
    for _, x in windows.batches(100):
        batch = ours.step(x)
        assert batch.decision is not None
        expected = decision.step(batch.output.probabilities, batch.output.evidence)
        torch.testing.assert_close(batch.decision.posterior, expected.posterior, rtol=0, atol=0)
