"""Three approaches to one stream: a model that is left alone, the paper's method, and what we recommend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from cgsa.data.windows import Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.diagnosis.trust import chances
from cgsa.engines.single_threaded import single_threaded
from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import create_method


@dataclass(frozen=True)
class Approach:
    """A way to train a model and to run it on a stream: a profile, with another online method or its own."""

    key: str
    """Name for programs."""
    title: str
    name: str
    """What sentences call it."""
    about: str
    """What it does, in a sentence."""
    profile: str
    method: str | None = None
    """Online method; None is that of the profile."""


APPROACHES = (
    Approach(
        "alone",
        "Left alone",
        "the frozen network",
        "The network of the paper, trained once and then frozen.",
        "quick",
        "source",
    ),
    Approach(
        "paper",
        "The paper's CGSA",
        "the paper's CGSA",
        "The same network, which adapts itself to the stream without labels.",
        "quick",
    ),
    Approach(
        "recommended",
        "Recommended",
        "the recommended profile",
        "Classifiers on averaged spectra that compare the machine with its own healthy start; the default profile.",
        "recommended",
    ),
)
"""The approaches of the demo; the last one is what we recommend."""


@dataclass(frozen=True, eq=False)
class ApproachRun:
    """What an approach says along a stream, window by window."""

    approach: Approach
    trace: StreamTrace
    states: tuple[str, ...]
    """Names of the states: the classes of the model and, if it knows it, unknown."""
    state: IntArray
    """Index of the verdict joined over time."""
    alarm: IntArray
    """Index of the fault that an active alarm reports; 0 without an alarm."""
    chance: DoubleArray
    """Probability that the single decision is right, as far as the model can tell."""
    end: DoubleArray
    """Seconds from the begin of the stream to the end of each window, when its diagnosis is known."""
    window_seconds: float

    @property
    def ready(self) -> BoolArray:
        """Which windows follow the observation of the healthy start; all if the method observes none."""
        return np.asarray(self.trace.evidence.get("ready", np.ones(len(self.end))), dtype=np.bool_)

    @property
    def adapts(self) -> bool:
        """Whether any window was used for adaptation."""
        return self.trace.accepted is not None and bool(self.trace.accepted.any())

    def last_before(self, time: DoubleArray) -> IntArray:
        """Return the index of the last window that has ended at each time; -1 before the first one."""
        return np.asarray(np.searchsorted(self.end, time, side="right") - 1, dtype=np.int64)


def run_approach(
    approach: Approach,
    bundle: ModelBundle,
    windows: Windows,
    profile: Profile,
    *,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> ApproachRun:
    """Run an approach on a labelled stream that is known to start healthy; no method sees a label."""
    method = create_method(
        bundle,
        approach.method or profile.default_method,
        profile,
        seed=seed,
        device=windows.device,
        healthy_start=True,
    )
    maker = DecisionMaker(profile.decide, bundle.manifest)
    # Batches are small: several threads would wait for each other longer than they compute.
    with single_threaded():
        trace = run_stream(Diagnoser(method), windows, batch_size=profile.stream.batch_size, on_progress=on_progress)
        decided = decide_afterwards(trace, maker)
    spec = bundle.manifest.window
    return ApproachRun(
        approach,
        trace,
        maker.states,
        decided.state.numpy(),
        decided.alarm_state.numpy(),
        chances(torch.from_numpy(trace.probabilities), decided).numpy(),
        (windows.starts.cpu().numpy() + spec.length) / windows.sample_rate,
        spec.length / windows.sample_rate,
    )
