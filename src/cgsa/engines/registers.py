"""Registers of sixteen numbers, written out, for loops that a compiler does not see through.

Numba compiles loops over arrays, and its compiler has to prove that no two of
them overlap before it takes sixteen numbers at once. In short loops over many
arrays it gives up, or looks anew every time. Here what is to be done with
sixteen numbers is written as a formula, and becomes just these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

LANES = 16
_SIXTEEN = ir.VectorType(ir.FloatType(), LANES)
_UNKNOWN = ir.Constant(_SIXTEEN, ir.Undefined)
_FAST = ("fast",)
_tools: Any = cgutils


class Register:
    """Sixteen numbers in a formula."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fadd(self.value, other.value, flags=_FAST))

    def __sub__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fsub(self.value, other.value, flags=_FAST))

    def __mul__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fmul(self.value, other.value, flags=_FAST))

    def __truediv__(self, other: Register) -> Register:
        return Register(self.builder, self.builder.fdiv(self.value, other.value, flags=_FAST))

    def root(self) -> Register:
        """Return the square roots."""
        kind = ir.FunctionType(_SIXTEEN, [_SIXTEEN])
        function = _tools.get_or_insert_function(self.builder.module, kind, "llvm.sqrt.v16f32")
        return Register(self.builder, self.builder.call(function, [self.value], fastmath=_FAST))

    def picked(self, other: Register, places: Sequence[int]) -> Register:
        """Return numbers of both, by their places; those of the other one follow."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
        return Register(self.builder, self.builder.shuffle_vector(self.value, other.value, mask))


class Memory:
    """An array from one of its places on."""

    def __init__(self, builder: Any, pointer: Any) -> None:
        self.builder, self.pointer = builder, pointer

    def __getitem__(self, place: Any) -> Register:
        return Register(self.builder, self._aligned(self.builder.load(self._at(place, _SIXTEEN))))

    def __setitem__(self, place: Any, register: Register) -> None:
        kind = register.value.type
        self._aligned(self.builder.store(register.value, self._at(place, kind)))

    def alone(self, place: Any) -> Register:
        """Return one number sixteen times."""
        number = self.builder.load(self.builder.gep(self.pointer, [_whole(place)]))
        first = self.builder.insert_element(_UNKNOWN, number, ir.Constant(ir.IntType(32), 0))
        value = Register(self.builder, first)
        return value.picked(value, [0] * LANES)

    def fetch(self) -> None:
        """Ask for what begins here, without waiting for it."""
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be read, into the second cache, of data.
        how = [ir.Constant(number, value) for value in (0, 2, 1)]
        self.builder.call(function, [self.builder.bitcast(self.pointer, byte), *how])

    def _at(self, place: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.pointer, [_whole(place)]), kind.as_pointer())

    @staticmethod
    def _aligned(instruction: Any) -> Any:
        # Arrays begin at any number.
        instruction.align = 4
        return instruction


def _whole(place: Any) -> Any:
    return ir.Constant(ir.IntType(64), place) if isinstance(place, int) else place


Formula = Callable[..., None]

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
"""Makes a function that is called in compiled code of one that writes its operations."""


def formula(kinds: Sequence[Any], write: Formula) -> tuple[Any, Any]:
    """Return what an intrinsic of numba returns: its signature, and what writes its operations.

    Arguments come in pairs, an array and the place to begin at, and become memories; single whole numbers may follow.
    """
    arrays = [kind for kind in kinds if isinstance(kind, types.Array)]
    pairs = [kind for array in arrays for kind in (array, types.intp)]
    signature = types.void(*pairs, *(types.intp for _ in range(len(kinds) - len(pairs))))

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        memories = []
        for number, array in enumerate(arrays):
            data = context.make_array(array)(context, builder, arguments[2 * number]).data
            memories.append(Memory(builder, builder.gep(data, [arguments[2 * number + 1]])))
        write(*memories, *arguments[len(pairs) :])
        return context.get_dummy_value()

    return signature, build


def added_up(registers: Sequence[Register]) -> Register:
    """Return the sums of eight registers in one of eight numbers: every step adds halves, and leaves half as many."""
    size = LANES
    while len(registers) > 1:
        size //= 2
        low = [first + place for first in range(0, 2 * LANES, 2 * size) for place in range(size)]
        high = [place + size for place in low]
        pairs = zip(registers[0::2], registers[1::2], strict=True)
        registers = [one.picked(other, low) + one.picked(other, high) for one, other in pairs]
    (rest,) = registers
    return rest.picked(rest, range(0, LANES, 2)) + rest.picked(rest, range(1, LANES, 2))


def sums_over(builder: Any, count: Any, terms: Callable[[Any], Sequence[Register]], number: int) -> list[Register]:
    """Return sums of so many registers each, over the places 0 to count - 1 at which the terms are told."""
    zero = ir.Constant(_SIXTEEN, [0.0] * LANES)
    sums = [_tools.alloca_once_value(builder, zero) for _ in range(number)]
    with _tools.for_range(builder, count) as loop:
        for place, term in zip(sums, terms(loop.index), strict=True):
            builder.store((Register(builder, builder.load(place)) + term).value, place)
    return [Register(builder, builder.load(place)) for place in sums]
