"""SIMD registers of sixteen float32 numbers, for loops that numba does not vectorise.

Numba compiles loops over arrays, and has to prove that no two arrays overlap before it computes with sixteen numbers at
once. In short loops over many arrays it gives up, or checks again every time. Here the operations on sixteen numbers
are written as a formula and emitted as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

Kind: TypeAlias = Any
"""Numba's type of an argument of compiled code, or what it makes of several; numba has no annotations."""
Value: TypeAlias = Any
"""LLVM's value in compiled code, or what emits it; llvmlite has no annotations."""

LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)
_FAST = ("fast",)
_tools: Value = cgutils


class Register:
    """Sixteen numbers in a formula."""

    def __init__(self, builder: Value, value: Value) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fadd(self.value, other.value, flags=_FAST))

    def __sub__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fsub(self.value, other.value, flags=_FAST))

    def __mul__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fmul(self.value, other.value, flags=_FAST))

    def __truediv__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fdiv(self.value, other.value, flags=_FAST))

    def sqrt(self) -> Register:
        """Return the square roots."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = _tools.get_or_insert_function(self.builder.module, kind, "llvm.sqrt.v16f32")
        return Register(self.builder, self.builder.call(function, [self.value], fastmath=_FAST))

    def shuffle(self, other: Register, places: Sequence[int]) -> Register:
        """Return numbers of both registers by their positions; those of the other one come after the own sixteen."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
        return Register(self.builder, self.builder.shuffle_vector(self.value, other.value, mask))


class Memory:
    """An array from a position on."""

    def __init__(self, builder: Value, pointer: Value) -> None:
        self.builder, self.pointer = builder, pointer

    def __getitem__(self, place: Value) -> Register:
        return Register(self.builder, self._aligned(self.builder.load(self._at(place, _VECTOR))))

    def __setitem__(self, place: Value, register: Register) -> None:
        kind = register.value.type
        self._aligned(self.builder.store(register.value, self._at(place, kind)))

    def broadcast(self, place: Value) -> Register:
        """Return one number, sixteen times."""
        number = self.builder.load(self.builder.gep(self.pointer, [_as_constant(place)]))
        first = self.builder.insert_element(_UNDEFINED, number, ir.Constant(ir.IntType(32), 0))
        value = Register(self.builder, first)
        return value.shuffle(value, [0] * LANES)

    def prefetch(self) -> None:
        """Start loading the cache line that begins here, without waiting for it."""
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # For reading, into the second-level cache, data.
        how = [ir.Constant(number, value) for value in (0, 2, 1)]
        self.builder.call(function, [self.builder.bitcast(self.pointer, byte), *how])

    def _at(self, place: Value, kind: Value) -> Value:
        return self.builder.bitcast(self.builder.gep(self.pointer, [_as_constant(place)]), kind.as_pointer())

    @staticmethod
    def _aligned(instruction: Value) -> Value:
        # Arrays are aligned to single numbers only.
        instruction.align = 4
        return instruction


def _as_constant(place: Value) -> Value:
    return ir.Constant(ir.IntType(64), place) if isinstance(place, int) else place


Formula = Callable[..., None]

intrinsic: Callable[[Callable[..., Kind]], Kind] = extending.intrinsic
"""Decorator for functions that emit the operations of a call in compiled code."""


def make_intrinsic(kinds: Sequence[Kind], emit: Formula) -> tuple[Kind, Value]:
    """Return what an intrinsic of numba returns: its signature, and a function that emits its operations.

    Arguments come in pairs, an array and the position to begin at, and become memories; integers may follow.
    """
    arrays = [kind for kind in kinds if isinstance(kind, types.Array)]
    pairs = [kind for array in arrays for kind in (array, types.intp)]
    signature = types.void(*pairs, *(types.intp for _ in range(len(kinds) - len(pairs))))

    def build(context: Value, builder: Value, _signature: Value, arguments: Value) -> Value:
        memories = []
        for number, array in enumerate(arrays):
            data = context.make_array(array)(context, builder, arguments[2 * number]).data
            memories.append(Memory(builder, builder.gep(data, [arguments[2 * number + 1]])))
        emit(*memories, *arguments[len(pairs) :])
        return context.get_dummy_value()

    return signature, build


def horizontal_sums(registers: Sequence[Register]) -> Register:
    """Return the sums of eight registers as one register of eight: every step adds halves and leaves half as many."""
    size = LANES
    while len(registers) > 1:
        size //= 2
        low = [first + place for first in range(0, 2 * LANES, 2 * size) for place in range(size)]
        high = [place + size for place in low]
        pairs = zip(registers[0::2], registers[1::2], strict=True)
        registers = [one.shuffle(other, low) + one.shuffle(other, high) for one, other in pairs]
    (rest,) = registers
    return rest.shuffle(rest, range(0, LANES, 2)) + rest.shuffle(rest, range(1, LANES, 2))


def sum_registers(
    builder: Value, count: Value, terms: Callable[[Value], Sequence[Register]], number: int
) -> list[Register]:
    """Return this many sums of registers, over the terms at positions 0 to count - 1."""
    zero = ir.Constant(_VECTOR, [0.0] * LANES)
    sums = [_tools.alloca_once_value(builder, zero) for _ in range(number)]
    with _tools.for_range(builder, count) as loop:
        for place, term in zip(sums, terms(loop.index), strict=True):
            builder.store((Register(builder, builder.load(place)) + term).value, place)
    return [Register(builder, builder.load(place)) for place in sums]
