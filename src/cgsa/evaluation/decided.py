"""What a model says of a stream of recordings, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cgsa.data.recording import Recording
from cgsa.data.windows import Segment, Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.diagnosis.trust import chances
from cgsa.metrics.accuracy import DoubleArray, IntArray
from cgsa.metrics.stream import StreamTrace
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import create_method, matching_channels, segments_for


@dataclass(frozen=True, eq=False)
class DecidedStream:
    """The decisions of a model about a stream of recordings."""

    trace: StreamTrace
    states: tuple[str, ...]
    """Names of the states: the classes of the model and, if it knows it, unknown."""
    state: IntArray
    """Index of the state of each window."""
    alarm: IntArray
    """Index of the fault that an active alarm reports; 0 without an alarm."""
    chance: DoubleArray
    """Probability that each window is diagnosed correctly, as far as the model can tell."""
    part: IntArray
    """Number of the recording of each window."""
    end: DoubleArray
    """Seconds from the begin of the stream to the end of each window."""


def decide_stream(
    bundle: ModelBundle,
    recordings: Sequence[Recording],
    profile: Profile,
    *,
    labels: Sequence[int],
    healthy_start: bool,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> DecidedStream:
    """Run the method of a profile on recordings, one after the other; the labels are only kept beside the results."""
    manifest = bundle.manifest
    chosen = [matching_channels(one, bundle) for one in recordings]
    segments = [Segment(one, label, 0) for one, label in zip(chosen, labels, strict=True)]
    windows = Windows(segments_for(manifest.objective, segments), manifest.window, device=device)
    method = create_method(
        bundle, profile.default_method, profile, seed=seed, device=device, healthy_start=healthy_start
    )
    trace = run_stream(Diagnoser(method), windows, batch_size=profile.stream.batch_size)
    maker = DecisionMaker(profile.decide, manifest)
    decided = decide_afterwards(trace, maker)
    return DecidedStream(
        trace,
        maker.states,
        decided.state.numpy(),
        decided.alarm_state.numpy(),
        chances(torch.from_numpy(trace.probabilities), decided).numpy(),
        windows.segments.cpu().numpy(),
        (windows.starts.cpu().numpy() + manifest.window.length) / manifest.sample_rate,
    )
