"""Explanations of the alarms that ``cgsa watch`` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.cli.explain import explained_channels, healthy_before, interval_of

if TYPE_CHECKING:
    from cgsa.events import Diagnosis
    from cgsa.explain.explanation import Explanation
    from cgsa.nn.bundle import ModelBundle


def alarm_explanations(
    events: Sequence[Diagnosis], lengths: Mapping[Path, float], model: ModelBundle, kinematics: str | None
) -> Iterator[Explanation]:
    """Yield the explanation of every interval with one alarm, compared with what came before it.

    That is the same recording before its first alarm, or else the earlier recordings without any. ``lengths`` has the
    seconds of every recording, in their order; the times of events run on from one to the next.
    """
    from cgsa.data.readers import read_recording
    from cgsa.explain.explanation import explain_interval
    from cgsa.explain.kinematics import load_kinematics

    machine = None if kinematics is None else load_kinematics(kinematics)
    start = 0.0
    quiet: list[Path] = []
    for path, seconds in lengths.items():
        own = [event for event in events if event.source == str(path)]
        alarms = [event for event in own if event.alarm is not None]
        if not alarms:
            quiet.append(path)
        else:
            # Read again: all recordings of a long stream would not fit into memory.
            whole = replace(explained_channels(read_recording(path), model, machine), source=str(path), offset=0)
            healthy = healthy_before(whole, interval_of(whole, max(0.0, alarms[0].begin - start), None))
            if not healthy:
                healthy = [explained_channels(read_recording(one), model, machine) for one in quiet]
            for alarm, group in groupby(own, key=lambda event: event.alarm):
                span = list(group)
                if alarm is not None:
                    current = interval_of(whole, max(0.0, span[0].begin - start), span[-1].end - start)
                    yield explain_interval(current, healthy, machine)[0]
        start += seconds
