"""What scikit-learn hands over, ``X``, ``y`` and metadata, as recordings, segments and a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from cgsa.data.levels import unit_of
from cgsa.data.readers import read_recording
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Condition, Scenario, SegmentSelection, Stage
from cgsa.errors import DataError
from cgsa.estimators.arrays import as_samples, column_names, is_table, table_rows

SAMPLES_AS_SECONDS = 1.0
"""Sample rate where none is known: times are then in samples."""
TOLERANCE = 0.01
"""Share of the range of a condition within which values count as one level."""
NO_CONDITION = Condition("condition", "", 0.0, 1.0, TOLERANCE)
"""The condition of a training that names none."""
WHOLE = SegmentSelection("T1", "all", level=0.0)
"""Recordings are used whole; nothing is cut out of them."""


def holds_recordings(given: object) -> TypeGuard[Sequence[Any]]:
    """Return whether ``X`` is a sequence of recordings, files, tables or arrays rather than one array of numbers."""
    if isinstance(given, np.ndarray):
        return given.dtype == object and given.ndim == 1 and len(given) > 0 and _is_recording(given[0])
    return isinstance(given, list | tuple) and len(given) > 0 and _is_recording(given[0])


def _is_recording(one: object) -> bool:
    if isinstance(one, Recording | str | PathLike) or is_table(one):
        return True
    # A list of lists of numbers is one array; a list of arrays with two axes is a list of recordings.
    return hasattr(one, "ndim") and bool(one.ndim == 2)


def recordings_of(
    given: Sequence[Any] | npt.NDArray[Any],
    *,
    sample_rate: float | None,
    channels: Sequence[str] | None,
    channel_units: Sequence[str] | None,
) -> list[Recording]:
    """Return the rows of ``X`` as recordings.

    Arrays are (recordings, samples) for one channel, or (recordings, channels, samples); those in a sequence are
    (samples, channels).
    """
    return [
        _recording(
            one,
            f"recording {number}",
            in_sequence=holds_recordings(given),
            sample_rate=sample_rate,
            channels=channels,
            units=channel_units,
        )
        for number, one in enumerate(given)
    ]


def _recording(
    one: object,
    where: str,
    *,
    in_sequence: bool,
    sample_rate: float | None,
    channels: Sequence[str] | None,
    units: Sequence[str] | None,
) -> Recording:
    if isinstance(one, str | PathLike):
        one = read_recording(Path(one))
    if isinstance(one, Recording):
        if sample_rate is not None and one.sample_rate != sample_rate:
            raise DataError(f"{where}, {one.source}: {one.sample_rate:g} Hz; expected sample_rate={sample_rate:g}")
        chosen = one if channels is None else one.select(tuple(channels))
        # Sources name intervals in the record of a training: the same memory twice is not the same recording.
        return replace(chosen, source=f"{where}, {one.source}").require_finite()
    if is_table(one):
        names = tuple(channels) if channels is not None else column_names(one)
        samples = table_rows(one, names, where)
    else:
        samples = as_samples(one, where)  # type: ignore[arg-type] # it says itself what it cannot read
        samples = _oriented(samples, where, in_sequence=in_sequence)
        names = tuple(channels) if channels is not None else _channel_names(len(samples))
    if len(names) != len(samples):
        raise DataError(f"{where}: {len(samples)} channels; channels= names {len(names)}: {', '.join(names)}")
    given_units = tuple(units) if units is not None else ("",) * len(names)
    return Recording(samples, sample_rate or SAMPLES_AS_SECONDS, names, given_units, source=where).require_finite()


def _oriented(samples: FloatArray, where: str, *, in_sequence: bool) -> FloatArray:
    if samples.ndim == 1:
        return samples[None]
    if samples.ndim != 2:
        raise DataError(f"{where}: shape {samples.shape}; expected (samples,) or (samples, channels)")
    if not in_sequence:
        return samples
    if samples.shape[0] < samples.shape[1]:
        raise DataError(
            f"{where}: shape {samples.shape}; expected (samples, channels) with more samples than channels; transpose "
            f"it, or pass one array (recordings, channels, samples)"
        )
    return np.ascontiguousarray(samples.T)


def _channel_names(count: int) -> tuple[str, ...]:
    return tuple(f"channel_{number}" for number in range(1, count + 1))


def with_conditions(recordings: Sequence[Recording], conditions: object | None) -> list[Recording]:
    """Return recordings that have the given conditions, one value per recording; None keeps their own."""
    if conditions is None:
        return list(recordings)
    columns = condition_columns(conditions, len(recordings))
    return [
        replace(
            one,
            conditions={
                name: np.full(one.samples, values[number], dtype=np.float32) for name, values in columns.items()
            },
        )
        for number, one in enumerate(recordings)
    ]


def require_units(recordings: Sequence[Recording], expected: Sequence[str]) -> None:
    """Refuse recordings in other units; a channel without a unit says nothing about it."""
    for one in recordings:
        wrong = [
            f"{name} in {own} instead of {known}"
            for name, own, known in zip(one.channels, one.units, expected, strict=True)
            if own and known and own != known
        ]
        if wrong:
            raise DataError(f"{one.source}: {', '.join(wrong)}; convert its samples")


def condition_columns(conditions: object, count: int) -> dict[str, FloatArray]:
    """Return conditions by name, one value per recording."""
    if is_table(conditions):
        named = {name: conditions[column] for name, column in zip(_names(conditions), conditions.columns, strict=True)}
    elif isinstance(conditions, Mapping):
        named = {str(name): values for name, values in conditions.items()}
    else:
        values = as_samples(conditions, "conditions")  # type: ignore[arg-type] # it says itself what it cannot read
        rows = values[:, None] if values.ndim == 1 else values
        if rows.ndim != 2:
            raise DataError(f"conditions of shape {values.shape}; expected (recordings,) or (recordings, conditions)")
        single = str(getattr(conditions, "name", None) or NO_CONDITION.name)
        names = [single] if rows.shape[1] == 1 else [f"condition_{place}" for place in range(1, rows.shape[1] + 1)]
        named = dict(zip(names, rows.T, strict=True))
    found = {name: as_samples(values, f"condition {name}") for name, values in named.items()}
    for name, values in found.items():
        if values.shape != (count,) or not np.isfinite(values).all():
            raise DataError(
                f"condition {name}: {values.size} values, {int(np.isfinite(values).sum())} of them finite; expected a "
                f"finite number for each of {count} recordings"
            )
    return found


def _names(table: object) -> tuple[str, ...]:
    return column_names(table) if is_table(table) else ()


def conditions_of(recordings: Sequence[Recording]) -> tuple[Condition, ...]:
    """Return the conditions that every recording has, with their ranges; a constant one where there is none."""
    shared = [name for name in recordings[0].conditions if all(name in one.conditions for one in recordings)]
    return tuple(_condition(name, recordings) for name in shared) or (NO_CONDITION,)


def _condition(name: str, recordings: Sequence[Recording]) -> Condition:
    low = min(float(one.conditions[name].min()) for one in recordings)
    high = max(float(one.conditions[name].max()) for one in recordings)
    high = high if high > low else low + max(1.0, abs(low))
    return Condition(name, unit_of(name), low, high, TOLERANCE * (high - low))


def complete(recordings: Sequence[Recording], conditions: Sequence[Condition]) -> list[Recording]:
    """Return recordings with a constant in place of conditions that they lack."""
    return [
        replace(
            one,
            conditions={
                condition.name: one.conditions.get(condition.name, np.zeros(one.samples, dtype=np.float32))
                for condition in conditions
            },
        )
        for one in recordings
    ]


def unit_numbers(units: object | None, count: int) -> list[int]:
    """Return the number of the specimen of each recording, from 1 on; without units, there is one."""
    if units is None:
        return [1] * count
    names = np.asarray(units)
    if names.shape != (count,):
        raise DataError(f"units of shape {names.shape}; expected one for each of {count} recordings")
    return [int(number) + 1 for number in np.unique(names, return_inverse=True)[1]]


def generated_scenario(
    recordings: Sequence[Recording], classes: Sequence[str], conditions: tuple[Condition, ...]
) -> Scenario:
    """Return the scenario of a training on whole recordings; ``classes`` starts with the healthy one."""
    first, name = recordings[0], conditions[0].name
    return Scenario(
        name="estimator",
        title="Recordings handed to an estimator",
        healthy=classes[0],
        faults=tuple(classes[1:]),
        channels=first.channels,
        sample_rate=first.sample_rate,
        conditions=conditions,
        offline=(replace(WHOLE, level={name: 0.0}),),
        online=(Stage("C1", WHOLE.run, level={name: 0.0}),),
    )
