"""The elements of a MAT file of version 5, checked before a library that trusts their sizes reads them."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cgsa.data.readers.damage import CURE, truncated
from cgsa.errors import DataError

HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15
"""The types of data elements that hold a variable."""
INT8, INT32, UINT32 = 1, 5, 6
ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
"""Bytes per number of each type of data."""
TEXT_TYPES = {*ITEM_BYTES, 16, 17, 18}
CELL, STRUCTURE, OBJECT, CHAR, SPARSE, FUNCTION, OPAQUE = 1, 2, 3, 4, 5, 16, 17
CONTAINERS = {CELL, STRUCTURE, OBJECT, FUNCTION}
NUMBERS = range(6, 16)
"""Classes of matrices of numbers."""
COMPLEX = 0x0800
FLAGS_BYTES = 8
PLANE = 2
"""A matrix has at least so many sides."""
MAX_SIDE = (1 << 31) - 1
MAX_NAME = 1 << 16
MAX_DEPTH = 64


class _Element(NamedTuple):
    """The type of an element, where its data begins and ends, and where the next element begins."""

    kind: int
    begin: int
    end: int
    next: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def check_elements(path: Path) -> None:
    """Check that every variable, and whatever is in it, lies within the file and has the size that it states.

    Compressed variables have a checksum, which the library verifies.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < HEADER_BYTES or data[126:128] not in {b"IM", b"MI"}:
            raise DataError(f"{path}: its header of {HEADER_BYTES} bytes is damaged; {CURE}")
        _Elements(path, data, "<" if data[126:128] == b"IM" else ">").check()


class _Elements:
    """The elements of one file."""

    def __init__(self, path: Path, data: mmap.mmap, order: str) -> None:
        self._path, self._data, self._order = path, data, order

    def check(self) -> None:
        """Check all variables."""
        place, size = HEADER_BYTES, len(self._data)
        while place < size:
            if place + 8 > size:
                raise truncated(self._path, "the tag of a variable", place, place + 8, size)
            kind, count = self._numbers(place, 2)
            if kind not in {MATRIX, COMPRESSED}:
                raise DataError(f"{self._path}: byte {place} has data of type {kind}; expected a variable; {CURE}")
            end = place + 8 + count
            if end > size:
                raise truncated(self._path, "a variable", place, end, size)
            if kind == MATRIX:
                self._check_matrix(_Element(kind, place + 8, end, end), MAX_DEPTH)
            place = end

    def _check_matrix(self, whole: _Element, depth: int) -> None:
        """Check a matrix and those in it; one without data has no elements."""
        if whole.size == 0:
            return
        parts = self._inside(whole)
        flags = self._next(parts, whole, {UINT32})
        if flags.size != FLAGS_BYTES or not depth:
            raise self._damaged(whole)
        [about, _] = self._numbers(flags.begin, 2)
        kind, times = about & 0xFF, 2 if about & COMPLEX else 1
        if kind == OPAQUE:
            # What a class of MATLAB's stores is none of numbers, and is not read.
            return
        shape = self._shape(parts, whole)
        if kind in NUMBERS:
            for _ in range(times):
                self._check_values(self._next(parts, whole, set(ITEM_BYTES)), math.prod(shape), whole)
        elif kind == CHAR:
            self._next(parts, whole, TEXT_TYPES)
        elif kind == SPARSE:
            self._check_sparse(parts, whole, shape, times)
        elif kind in CONTAINERS:
            for _ in range(math.prod(shape) * self._fields(kind, parts, whole)):
                self._check_matrix(self._next(parts, whole, {MATRIX}), depth - 1)
        else:
            raise self._damaged(whole)

    def _shape(self, parts: Iterator[_Element], whole: _Element) -> tuple[int, ...]:
        """Return the sides of a matrix, whose name follows."""
        sides = self._next(parts, whole, {INT32})
        shape = self._numbers(sides.begin, sides.size // 4)
        if sides.size % 4 or len(shape) < PLANE or max(shape) > MAX_SIDE:
            raise self._damaged(whole)
        self._next(parts, whole, {INT8})
        return shape

    def _check_values(self, values: _Element, count: int, whole: _Element) -> None:
        if values.size != count * ITEM_BYTES[values.kind]:
            raise self._damaged(whole)

    def _check_sparse(self, parts: Iterator[_Element], whole: _Element, shape: tuple[int, ...], times: int) -> None:
        """Check the rows, the ends of the columns and the values of a matrix of which most numbers are 0."""
        rows, ends = (self._next(parts, whole, {INT32}) for _ in range(2))
        places = np.asarray(self._numbers(rows.begin, rows.size // 4), np.int64)
        limits = np.asarray(self._numbers(ends.begin, ends.size // 4), np.int64)
        if len(limits) != shape[1] + 1 or (np.diff(limits, prepend=0) < 0).any() or limits[-1] > len(places):
            raise self._damaged(whole)
        if (places[: limits[-1]] >= shape[0]).any():
            raise self._damaged(whole)
        for _ in range(times):
            values = self._next(parts, whole, set(ITEM_BYTES))
            self._check_values(values, max(int(limits[-1]), values.size // ITEM_BYTES[values.kind]), whole)

    def _fields(self, kind: int, parts: Iterator[_Element], whole: _Element) -> int:
        """Return the number of fields of a structure or an object; cells have one."""
        if kind in {CELL, FUNCTION}:
            return 1
        if kind == OBJECT:
            self._next(parts, whole, {INT8})
        length = self._next(parts, whole, {INT32})
        names = self._next(parts, whole, {INT8})
        [each] = self._numbers(length.begin, 1) if length.size == 4 else [0]
        if not 0 < each <= MAX_NAME or names.size % each:
            raise self._damaged(whole)
        return names.size // each

    def _inside(self, whole: _Element) -> Iterator[_Element]:
        place = whole.begin
        while place + 8 <= whole.end:
            kind, count = self._numbers(place, 2)
            if kind >> 16:
                # Up to four bytes of data stand in the tag itself.
                kind, count = kind & 0xFFFF, kind >> 16
                found = _Element(kind, place + 4, place + 4 + count, place + 8)
                valid = count <= 4
            else:
                end = place + 8 + count
                found = _Element(kind, place + 8, end, end if kind == MATRIX else place + 8 + -(-count // 8) * 8)
                valid = end <= whole.end
            if not valid:
                raise self._damaged(whole)
            yield found
            place = found.next

    def _next(self, parts: Iterator[_Element], whole: _Element, kinds: set[int]) -> _Element:
        """Return the next element, which has to be of one of some types."""
        found = next(parts, None)
        if found is None or found.kind not in kinds:
            raise self._damaged(whole)
        return found

    def _numbers(self, place: int, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f"{self._order}{count}I", self._data, place)

    def _damaged(self, whole: _Element) -> DataError:
        return DataError(f"{self._path}: the variable at byte {whole.begin - 8} contradicts itself; {CURE}")
