"""What users hand to a machine, checked against its model: rate, channels, units and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from cgsa.data.readers import read_recording
from cgsa.data.recording import FloatArray, Recording
from cgsa.errors import DataError
from cgsa.estimators.arrays import (
    ArrayInput,
    ColumnTable,
    as_samples,
    channels_by_samples,
    column_names,
    is_table,
    table_rows,
)
from cgsa.live.intake.quality import QualityConfig
from cgsa.nn.bundle import Manifest

SignalInput: TypeAlias = "ArrayInput | ColumnTable | Recording | str | PathLike[str]"
"""Samples of all channels, windows of them, or a recording or its file."""
RATE_TOLERANCE = QualityConfig().rate_tolerance


@dataclass(frozen=True)
class SignalFormat:
    """What the caller says about samples that do not say it themselves."""

    sample_rate: float | None = None
    """In Hz; None takes that of the model."""
    channels: Sequence[str] | None = None
    """Names of the channels in their order; None takes those of the model."""
    units: str | Sequence[str] | None = None
    """Units of the channels, or of all of them; None takes those of the model."""
    channels_first: bool | None = None
    """Whether samples are (channels, samples); None decides by the number of channels."""


@dataclass(frozen=True, eq=False)
class InputSignal:
    """Samples that fit a model."""

    samples: FloatArray
    """(channels, samples), in the order of the model."""
    step: int
    """Samples from one window to the next: that of the model, or that of the windows that were given."""
    given_as_windows: bool = False
    source: str = "samples"
    channels_first: bool | None = None
    """Whether the samples were (channels, samples); None if they could be nothing else."""
    states_rate: bool = False
    """Whether the samples state their rate themselves."""
    conditions: Mapping[str, FloatArray | float] = field(default_factory=dict)


def read_signal(
    given: SignalInput,
    manifest: Manifest,
    stated: SignalFormat,
    *,
    assumed_first: bool | None = None,
    conditions: Mapping[str, npt.ArrayLike] | None = None,
) -> InputSignal:
    """Return samples as a model reads them, or say what would fit it.

    ``assumed_first`` is the order of the axes where the shape does not tell it. ``conditions`` are known operating
    conditions by name, a value for all samples or one for each.
    """
    found = _read(given, manifest, stated, assumed_first=assumed_first)
    return replace(found, conditions=_checked_conditions(conditions or {}, manifest, found.samples.shape[1]))


def _read(given: SignalInput, manifest: Manifest, stated: SignalFormat, *, assumed_first: bool | None) -> InputSignal:
    if isinstance(given, str | PathLike):
        given = read_recording(Path(given))
    if isinstance(given, Recording):
        if stated.channels is not None or stated.units is not None:
            raise DataError(f"{given.source}: a recording has its own channels and units; leave them out")
        _check_rate(given.sample_rate, manifest, given.source)
        _check_rate(stated.sample_rate, manifest, given.source)
        chosen = given.select(manifest.channels)
        _check_units(chosen.units, manifest, given.source)
        return InputSignal(as_samples(chosen.signal), manifest.window.step, source=given.source, states_rate=True)
    _check_rate(stated.sample_rate, manifest)
    if is_table(given):
        if stated.channels is not None:
            raise DataError(f"a table names its columns ({', '.join(column_names(given))}); leave channels out")
        _check_units(stated.units, manifest)
        return InputSignal(table_rows(given, manifest.channels), manifest.window.step)
    names = manifest.channels if stated.channels is None else tuple(stated.channels)
    rows = _rows(names, stated.units, manifest)
    values = as_samples(cast(ArrayInput, given))
    if values.ndim == 3:
        return _joined_windows(values[:, rows] if values.shape[1] == len(names) else values, names, manifest)
    samples, first = channels_by_samples(
        values, len(names), channels_first=stated.channels_first, assumed=assumed_first
    )
    return InputSignal(samples[rows], manifest.window.step, channels_first=None if values.ndim == 1 else first)


def _rows(names: Sequence[str], units: str | Sequence[str] | None, manifest: Manifest) -> list[int]:
    """Return the places of the channels of the model among those that are named, with their units checked."""
    missing = [name for name in manifest.channels if name not in names]
    if missing or len(set(names)) != len(names):
        raise DataError(
            f"channels {', '.join(names)}; the model needs each of {', '.join(manifest.channels)}, by these names"
        )
    rows = [names.index(name) for name in manifest.channels]
    if not isinstance(units, str) and units is not None:
        if len(units) != len(names):
            raise DataError(f"{len(units)} units for {len(names)} channels; expected one for each, or one for all")
        units = [units[row] for row in rows]
    _check_units(units, manifest)
    return rows


def _check_rate(rate: float | None, manifest: Manifest, where: str = "samples") -> None:
    if rate is not None and not abs(rate / manifest.sample_rate - 1) <= RATE_TOLERANCE:
        raise DataError(
            f"{where}: {rate:g} Hz; the model was trained at {manifest.sample_rate:g} Hz; resample the samples, or "
            f"train a model at their rate"
        )


def _check_units(units: str | Sequence[str] | None, manifest: Manifest, where: str = "samples") -> None:
    given = manifest.units if units is None else (units,) * len(manifest.units) if isinstance(units, str) else units
    wrong = [
        f"{name} in {own or 'no unit'} instead of {expected or 'no unit'}"
        for name, own, expected in zip(manifest.channels, given, manifest.units, strict=True)
        if own != expected
    ]
    if wrong:
        raise DataError(f"{where}: {', '.join(wrong)}; convert the samples to the units of the training")


def _joined_windows(windows: FloatArray, names: Sequence[str], manifest: Manifest) -> InputSignal:
    """Return windows as consecutive samples; those that overlap are joined where they do."""
    wanted = manifest.window.length
    if windows.shape[1:] != (len(manifest.channels), wanted):
        raise DataError(
            f"windows of shape {windows.shape}; expected (windows, {len(names)}, {wanted}): windows, channels, samples"
        )
    shared = _shared_step(windows, manifest.window.step)
    parts = [windows[0], *windows[1:, :, wanted - shared :]]
    return InputSignal(np.concatenate(parts, axis=1), shared, given_as_windows=True)


def _shared_step(windows: FloatArray, likely: int) -> int:
    """Return the samples from one window to the next if they share the others, or else the length of a window.

    ``likely`` is the first guess; then the least step counts.
    """
    length = int(windows.shape[2])
    if len(windows) < 2:
        return length
    repeated = 1 + np.flatnonzero(windows[0, 0, 1:] == windows[1, 0, 0])
    for step in (likely, *repeated.tolist()):
        if step < length and all(
            np.array_equal(some[1:, :, : length - step], some[:-1, :, step:], equal_nan=True)
            for some in (windows[:2], windows)
        ):
            return int(step)
    return length


def _checked_conditions(
    conditions: Mapping[str, npt.ArrayLike], manifest: Manifest, samples: int
) -> dict[str, FloatArray | float]:
    names = [condition.name for condition in manifest.conditions]
    unknown = [name for name in conditions if name not in names]
    if unknown:
        raise DataError(f"condition {', '.join(unknown)}; the model knows {', '.join(names)}")
    found: dict[str, FloatArray | float] = {}
    for name, values in conditions.items():
        trace = as_samples(values, f"condition {name}")
        if trace.shape not in {(), (samples,)}:
            raise DataError(
                f"condition {name}: shape {trace.shape}; expected one value, or one for each of {samples} samples"
            )
        found[name] = trace if trace.ndim else float(trace)
    return found
