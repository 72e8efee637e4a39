"""Requests that are no usable blocks."""

from __future__ import annotations

from benchmarks.faults.registry import Fault


class Garbage(Fault):
    """Bytes that are no block, damaged blocks, and blocks of machines that are not monitored."""

    name = "garbage"

    def strike(self) -> None:
        """Send some; the answers must be refusals."""
        self._answers: list[int] = []
        whole = self.run.some_block()
        for _ in range(self.rng.randint(5, 20)):
            damaged = bytearray(whole)
            damaged[self.rng.randrange(len(damaged))] ^= 1 << self.rng.randrange(8)
            for body in (self.rng.randbytes(self.rng.randint(0, 300)), bytes(damaged), whole[: len(whole) // 2]):
                answer = self.run.post(body)
                if answer is not None:
                    self._answers.append(answer)

    def told(self) -> bool:
        """Every answer said what is wrong; 429 and 503 ask to come again."""
        return set(self._answers) <= {404, 413, 422, 429, 503}
