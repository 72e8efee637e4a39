"""What takes blocks from sources: the machines of a service, or the gateway of a fleet."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import Refusal


class BlockReceiver(Protocol):
    """Takes blocks and commands for several machines; usable from any thread."""

    @property
    def machines(self) -> Collection[str]:
        """Names of the machines that blocks are taken for."""

    def submit(self, block: Block) -> int:
        """Take a block and return its position; from then on it survives the process.

        This raises an :class:`~cgsa.errors.OverloadError` if the block has to be sent again later.
        """

    def command(self, machine: str, command: Command) -> object:
        """Take a command for a machine."""

    def last_refused(self, machine: str) -> Refusal | None:
        """Return the newest data of a machine that were found unusable after they had been taken, if that is known."""
