"""What stands out of the samples around an alarm of a watched machine, with the names of the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import is_data_set
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.errors import CgsaError
from cgsa.explain.explanation import explain_interval
from cgsa.explain.kinematics import load_kinematics
from cgsa.live.plant import ExplainConfig
from cgsa.live.store import Snippet
from cgsa.report.explain import family_row, peak_row

FAMILIES, PEAKS = 6, 8
"""Rows of the tables."""
NO_KINEMATICS = (
    "Lines have no names: state the shafts, gears, bearings and the motor in a file, and name it as kinematics in "
    "[machines.explain]"
)


@dataclass(frozen=True)
class AlarmExplanation:
    """What stands out around an alarm."""

    case: int
    time: float
    """Of the first sample, in seconds of the stream."""
    sentences: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]
    peaks: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def explain_snippet(
    snippet: Snippet, config: ExplainConfig, units: Mapping[str, str], own: Sequence[Recording] = ()
) -> AlarmExplanation:
    """Explain the samples around an alarm; what prevents it becomes a note.

    ``units`` has those of the channels, as far as they are known; ``own`` are healthy recordings of the machine, which
    are used if the configuration names none.
    """
    samples = np.nan_to_num(snippet.samples, posinf=0.0, neginf=0.0)
    recording = Recording(
        samples,
        snippet.sample_rate,
        snippet.channels,
        tuple(units.get(name, "") for name in snippet.channels),
        source=f"case {snippet.case}",
    )
    try:
        machine = None if config.kinematics is None else load_kinematics(config.kinematics)
        healthy = [one.select(snippet.channels) for path in config.healthy for one in healthy_recordings(path)]
        if not healthy:
            healthy = [one for one in own if (one.channels, one.sample_rate) == (snippet.channels, snippet.sample_rate)]
        found, _ = explain_interval(recording, healthy, machine, speed=config.speed)
    except CgsaError as error:
        return AlarmExplanation(snippet.case, snippet.time, (), (), (), (str(error),))
    return AlarmExplanation(
        snippet.case,
        snippet.time,
        tuple(found.sentences),
        tuple(family_row(one) for one in found.families[:FAMILIES]),
        tuple(peak_row(one) for one in found.peaks[:PEAKS]),
        (*found.notes, *(() if machine else (NO_KINEMATICS,))),
    )


def healthy_recordings(path: str) -> list[Recording]:
    """Return a recording of the healthy machine, or those of a data set."""
    return list(DataSet.load(path).healthy_recordings()) if is_data_set(path) else [read_recording(path)]
