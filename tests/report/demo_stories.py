"""Made-up streams of three approaches, for the page of the demo."""

from __future__ import annotations

import numpy as np

from cgsa.data.scenario import Condition
from cgsa.evaluation.approach_figures import STEP_SECONDS, StreamTruth, approach_figures, counted_from
from cgsa.evaluation.approaches import APPROACHES, Approach, ApproachRun
from cgsa.metrics.accuracy import IntArray
from cgsa.metrics.stream import StreamTrace
from cgsa.report.demo_page import DemoStory

STATES = ("health", "gear_wear", "teeth_<break>", "unknown")
SECONDS, ONSET = 12.0, 6.0


def made_truth() -> StreamTruth:
    """A stream whose torque falls, with a fault in the middle."""
    time = np.arange(1, round(SECONDS / STEP_SECONDS) + 1) * np.float64(STEP_SECONDS)
    torque = np.where(time <= 4, 20.0, np.where(time <= 8, 15.0, 5.0))
    return StreamTruth(time, (time > ONSET + 1e-9).astype(np.int64), {"torque": torque}, (0.0, 4.0, 8.0, SECONDS))


def made_run(
    approach: Approach, state: IntArray, alarm: IntArray | None = None, *, step: float = 0.1, observed: float = 0.0
) -> ApproachRun:
    """An approach that says ``state`` at the ends of windows that are ``step`` apart, and is sure of it."""
    end = np.arange(1, len(state) + 1) * np.float64(step)
    sure = np.full((len(state), 3), 0.1, np.float32)
    sure[np.arange(len(state)), np.minimum(state, 2)] = 0.8
    evidence = {
        "response": np.sin(end),
        "queue_mean": np.zeros(len(end)),
        "pseudo_label": state,
        "ready": end > observed + 1e-9,
    }
    trace = StreamTrace(
        label=(end > ONSET + 1e-9).astype(np.int64),
        stage=np.minimum((end / 4).astype(np.int64), 2),
        probabilities=sure,
        accepted=np.arange(len(state)) % 2 == 0 if approach.key == "paper" else None,
        evidence=evidence,
        batch_size=8,
    )
    alarms = state if alarm is None else alarm
    return ApproachRun(approach, trace, STATES, state, alarms, np.full(len(state), 0.8), end, step)


def made_story() -> DemoStory:
    """Two approaches that are wrong in different ways, and one that is right."""
    time = np.arange(1, round(SECONDS / 0.1) + 1) * 0.1
    wavering = np.where((time * 2).astype(np.int64) % 2 == 0, 2, np.where(time > ONSET, 1, 0))
    right = np.where(time > ONSET + 0.5, 1, 0)
    runs = [
        made_run(APPROACHES[0], wavering),
        made_run(APPROACHES[1], np.where(time > ONSET, 3, 0)),
        made_run(APPROACHES[2], right, observed=1.0),
    ]
    truth = made_truth()
    since = counted_from(runs)
    return DemoStory(
        title="A <toy> machine",
        facts=["Measured & counted."],
        states=STATES,
        condition=Condition("torque", "Nm", 0.0, 15.0, 0.5),
        stages=("20 Nm", "15 Nm", "5 Nm"),
        truth=truth,
        since=since,
        runs=runs,
        figures=[approach_figures(run, truth, since) for run in runs],
        next_steps=[("cgsa serve --demo", "live")],
        commands=["cgsa demo gearbox"],
    )
