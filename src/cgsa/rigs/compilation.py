"""Compilation of numerical functions to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compile_function(function: F) -> F:
    """Compile a function and cache the result on disk; numba has no type hints."""
    return cast(F, njit(cache=True)(function))
