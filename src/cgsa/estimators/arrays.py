"""Arrays of samples in the forms that users have them: NumPy, torch, tables of pandas and polars, sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import torch

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

ArrayInput: TypeAlias = "npt.ArrayLike | torch.Tensor"
"""Samples without names."""
ORDER = "pass channels_first=True for (channels, samples), False for (samples, channels)"


class ColumnTable(Protocol):
    """A table with a named column per channel, such as a data frame of pandas or polars."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""
        ...

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return all cells."""
        ...

    def __getitem__(self, name: Any, /) -> Any: ...


def is_table(values: object) -> TypeGuard[ColumnTable]:
    """Return whether values are a table with named columns; no library of tables needs to be installed."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def column_names(table: ColumnTable) -> tuple[str, ...]:
    """Return the names of the columns of a table."""
    return tuple(str(name) for name in table.columns)


def table_rows(table: ColumnTable, names: Sequence[str], where: str = "samples") -> FloatArray:
    """Return named columns as rows of one array; other columns are ignored."""
    known = dict(zip(column_names(table), table.columns, strict=True))
    missing = [name for name in names if name not in known]
    if missing:
        raise DataError(f"{where}: the table has no column {', '.join(missing)}; it has {', '.join(known) or 'none'}")
    columns = [table[known[name]] for name in names]
    return np.stack(
        [as_samples(column, f"{where}: column {name}") for name, column in zip(names, columns, strict=True)]
    )


def as_samples(values: ArrayInput, where: str = "samples") -> FloatArray:
    """Return numbers as an array in single precision; masked values become NaN, values too large become infinite.

    >>> as_samples([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if isinstance(values, torch.Tensor):
        found: npt.NDArray[Any] = values.detach().cpu().to(torch.float64).numpy()
    else:
        try:
            found = np.asanyarray(values)
        except ValueError as error:
            raise DataError(f"{where}: rows of different lengths; expected an array of numbers") from error
    if found.dtype.kind not in "iuf":
        raise DataError(f"{where}: values of type {found.dtype}; expected real numbers, such as float64 or int16")
    if not found.size:
        raise DataError(f"{where}: shape {found.shape} holds no sample; expected at least one")
    if isinstance(found, np.ma.MaskedArray):
        found = np.ma.filled(found.astype(np.float64), np.nan)
    with np.errstate(over="ignore"):
        return np.asarray(found, dtype=np.float32, order="C")


def channels_by_samples(
    samples: FloatArray, channels: int, *, channels_first: bool | None = None, assumed: bool | None = None
) -> tuple[FloatArray, bool]:
    """Return samples as (channels, samples), and whether they were.

    The axis of the channels is the one of their number. ``assumed`` decides where both axes have it; without it, such
    samples are refused. ``channels_first`` decides everywhere.

    >>> channels_by_samples(np.zeros((500, 3)), 3)[0].shape
    (3, 500)
    """
    if samples.ndim == 1 and channels == 1:
        return samples[None], True
    if samples.ndim != 2 or channels not in samples.shape:
        raise DataError(
            f"samples of shape {samples.shape}; expected ({channels}, samples) or (samples, {channels}), one row or "
            f"column for each channel"
        )
    first = channels_first
    if first is None:
        first = assumed if samples.shape == (channels, channels) else samples.shape[0] == channels
    if first is None:
        raise DataError(f"samples of shape {samples.shape}: both axes may be the {channels} channels; {ORDER}")
    if samples.shape[0 if first else 1] != channels:
        raise DataError(f"channels_first={first}, but samples have the shape {samples.shape} for {channels} channels")
    return (samples if first else np.ascontiguousarray(samples.T)), first
