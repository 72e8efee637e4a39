from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.data.windows import WindowSpec
from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.held_out import join_part, with_decisions
from cgsa.nn.bundle import Calibration
from cgsa.offline.judging import JudgedPart, JudgedStream
from tests.assessments import assessment, result
from tests.machines import ensemble_manifest

MANIFEST = replace(ensemble_manifest(), calibration=Calibration(3, 0.9, 1.0, 4.0))
CONFIG = FilterConfig(verdict_change=0.2, false_alarms_per_day=100.0)
STEP = 64


def stream(*, reference: int = 5, faults: tuple[int, ...] = (1, 2)) -> JudgedStream:
    """20 healthy windows and 30 of each fault; every tenth window looks like the last class."""
    labels = torch.tensor([0] * 20 + [fault for fault in faults for _ in range(30)])
    seen = labels.clone()
    seen[9::10] = 2
    probabilities = torch.full((len(labels), 3), 0.01, dtype=torch.float64)
    probabilities[torch.arange(len(labels)), seen] = 0.98
    return JudgedStream(probabilities, torch.ones(len(labels)), torch.zeros(len(labels)), labels, reference, STEP)


def test_every_fault_is_decided_after_the_healthy_machine_as_in_a_stream() -> None:
    part = JudgedPart(result("level", "speed 1200 rpm", 90), [stream()])
    found = join_part(part, MANIFEST, CONFIG)
    assert found is not None
    spaced = replace(MANIFEST, window=WindowSpec(MANIFEST.window.length, STEP))
    verdicts, delays = [[0] * 4 for _ in range(3)], []
    for fault in (1, 2):
        maker, delay = DecisionMaker(CONFIG, spaced), None
        own = (part.streams[0].labels == 0) | (part.streams[0].labels == fault)
        for place, (label, row) in enumerate(
            zip(part.streams[0].labels[own].tolist(), part.streams[0].probabilities[own], strict=True)
        ):
            ready = torch.tensor([place >= 5])
            decided = maker.step(row[None], {"ready": ready, "distance": torch.ones(1)})
            verdicts[label][int(decided.state)] += 1
            if delay is None and label and bool(decided.alarm):
                delay = ((place - 20) * STEP + MANIFEST.window.length) / MANIFEST.sample_rate
        delays.append(delay)
    assert found.verdicts == tuple(map(tuple, verdicts))
    assert found.delays == pytest.approx(delays)
    assert all(delay is not None for delay in delays)
    assert found.healthy_seconds == pytest.approx(2 * 20 * STEP / MANIFEST.sample_rate)
    assert found.fault_seconds == pytest.approx((29 * STEP + MANIFEST.window.length) / MANIFEST.sample_rate)


def test_without_a_healthy_machine_or_a_fault_there_is_no_stream() -> None:
    part = result("level", "speed 1200 rpm", 90)
    assert join_part(JudgedPart(part, [stream(reference=0)]), MANIFEST, CONFIG) is None
    assert join_part(JudgedPart(part, [stream(faults=())]), MANIFEST, CONFIG) is None
    assert join_part(JudgedPart(part, []), MANIFEST, CONFIG) is None


def test_a_fault_whose_recording_ends_early_raises_no_alarm() -> None:
    whole = stream(faults=(1,))
    short = replace(
        whole,
        probabilities=whole.probabilities[:22],
        distance=whole.distance[:22],
        change=whole.change[:22],
        labels=whole.labels[:22],
    )
    found = join_part(JudgedPart(result("level", "one", 90), [short, whole]), MANIFEST, CONFIG)
    assert found is not None
    assert found.delays[0] is None
    assert found.delays[1] is not None


def test_the_manifest_gets_the_decisions_of_every_part() -> None:
    part = result("level", "speed 1200 rpm", 90)
    told = replace(MANIFEST, assessment=assessment([part]))
    judged = [JudgedPart(part, [stream()])]
    found = with_decisions(told, judged, CONFIG).assessment
    assert found is not None
    assert found.results == (replace(part, joined=join_part(judged[0], MANIFEST, CONFIG)),)
    assert with_decisions(MANIFEST, judged, CONFIG) == MANIFEST
