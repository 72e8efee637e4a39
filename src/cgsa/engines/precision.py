"""The precision in which a GPU multiplies float32 matrices: a setting of the process, which threads share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from typing import Literal

import torch

Precision = Literal["highest", "high"]


class SharedPrecision:
    """Lets threads work with the precision that each of them needs, although PyTorch has one setting per process.

    Threads that need the same precision work at the same time; a thread that needs the other one waits for them. The
    last one to leave restores the setting that the first one found.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._users = 0
        self._before = ""
        self._thread = local()

    @contextmanager
    def __call__(self, precision: Precision, device: torch.device) -> Iterator[None]:
        """Multiply in float32 (``highest``), or in TF32 (``high``): 10 bits instead of 23, several times as fast.

        A CPU always multiplies in float32. One thread cannot nest contexts of different precisions.
        """
        outer = getattr(self._thread, "precision", None)
        if device.type != "cuda" or outer == precision:
            yield
            return
        if outer is not None:
            raise RuntimeError(f"matmul precision {precision} inside a context of precision {outer}")
        with self._changed:
            self._changed.wait_for(lambda: not self._users or torch.get_float32_matmul_precision() == precision)
            if not self._users:
                self._before = torch.get_float32_matmul_precision()
                torch.set_float32_matmul_precision(precision)
            self._users += 1
        self._thread.precision = precision
        try:
            yield
        finally:
            self._thread.precision = None
            with self._changed:
                self._users -= 1
                if not self._users:
                    torch.set_float32_matmul_precision(self._before)
                    self._changed.notify_all()


matmul_precision = SharedPrecision()
