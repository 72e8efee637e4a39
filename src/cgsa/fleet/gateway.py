"""A gateway: publishes the blocks and commands of machines to the log of a fleet.

It decides which blocks are used for adaptation. While the shards are behind, each further block is published as one
that is diagnosed and not learnt from, so that learning is shed first and verdicts last; and since the log says so,
every replay does the same. How far they are behind follows from what this gateway has published and what the shards
report.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Lock
from uuid import uuid4

from cgsa.errors import CgsaError, ConfigError, DataError, OverloadError
from cgsa.fleet.assignments import AssignmentFolder
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.live.commands import SERVICE, Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import Refusal
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayConfig:
    """When a gateway sheds learning, and when it takes no more blocks."""

    shed_above: float = 2.0
    """Seconds of signal waiting above which learning is suspended."""
    shed_below: float = 0.5
    """Seconds of signal waiting below which learning resumes."""
    max_waiting: float = 3600.0
    """Seconds of signal of a machine that may wait in the log; further blocks are refused until some are processed."""

    def __post_init__(self) -> None:
        if not 0 <= self.shed_below <= self.shed_above < self.max_waiting:
            raise ConfigError(
                f"shed_below {self.shed_below:g}, shed_above {self.shed_above:g}, max_waiting {self.max_waiting:g}; "
                "expected seconds in ascending order"
            )


class KnownMachines:
    """The machines of a fleet, as its newest table of assignments has them."""

    def __init__(self, folder: ObjectFolder, *, seconds: float = 5.0) -> None:
        self._folder, self._seconds = AssignmentFolder(folder), seconds
        self._names: frozenset[str] = frozenset()
        self._due = 0.0

    def __call__(self) -> Collection[str]:
        """Return their names, a few seconds old at most."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._seconds
            try:
                self._names = frozenset(self._folder.newest().watched)
            except CgsaError as error:
                # Blocks of the machines known so far are taken all the same.
                LOG.warning("the machines of the fleet cannot be read: %s", error)
        return self._names


@dataclass(eq=False)
class _Backlog:
    """What was published of one machine and is not processed yet."""

    lock: Lock = field(default_factory=Lock)
    blocks: deque[tuple[int, float]] = field(default_factory=deque)
    """Positions and seconds."""
    seconds: float = 0.0
    shedding: bool = False


class Gateway:
    """Takes blocks from sources, and publishes them; usable from any thread.

    ``machines`` returns the names of the machines that the fleet watches. The blocks of one machine should come through
    one gateway at a time.
    """

    def __init__(
        self, log: ReplayableLog, machines: Callable[[], Collection[str]], config: GatewayConfig | None = None
    ) -> None:
        self.config = config or GatewayConfig()
        self._log, self._machines = log, machines
        self._backlogs: dict[str, _Backlog] = {}
        self._lock = Lock()

    @property
    def machines(self) -> Collection[str]:
        """Names of the machines that blocks are taken for."""
        return self._machines()

    def waiting(self, machine: str) -> float:
        """Return the seconds of signal that this gateway has published and no shard has processed."""
        backlog = self._backlog(machine)
        with backlog.lock:
            return self._update(machine, backlog)

    def submit(self, block: Block) -> int:
        """Publish a block and return its position; the same block again has the same position, and counts once."""
        machine = block.machine
        if machine not in self.machines:
            raise DataError(f"no machine {machine!r} is watched by this fleet")
        backlog = self._backlog(machine)
        with backlog.lock:
            waiting = self._update(machine, backlog)
            if waiting > self.config.max_waiting:
                raise OverloadError(f"{machine}: {waiting:.0f} s of signal wait already; send this block again later")
            self._update_shedding(machine, backlog, waiting)
            kind = BLOCK_NOT_LEARNT if backlog.shedding else BLOCK
            # A sender that restarts may begin with the same numbers again, but not at the same time.
            key = f"block {block.sequence} {block.time!r}"
            position = self._log.append(machine, kind, block.to_bytes(), key=key)
            if not backlog.blocks or position > backlog.blocks[-1][0]:
                backlog.blocks.append((position, block.seconds))
                backlog.seconds += block.seconds
            return position

    def command(self, machine: str, command: Command) -> int:
        """Publish a command and return its position."""
        if machine not in self.machines:
            raise DataError(f"no machine {machine!r} is watched by this fleet")
        return self._log.append(machine, COMMAND, command.to_bytes(), key=f"command {uuid4().hex}")

    def last_refused(self, machine: str) -> Refusal | None:
        """Return None: what a shard refuses is in the notes of the machine."""
        del machine
        return None

    def _backlog(self, machine: str) -> _Backlog:
        with self._lock:
            return self._backlogs.setdefault(machine, _Backlog())

    def _update(self, machine: str, backlog: _Backlog) -> float:
        """Forget what is processed by now; return the seconds of signal that wait."""
        processed = self._log.processed().get(machine, 0)
        while backlog.blocks and backlog.blocks[0][0] < processed:
            backlog.seconds -= backlog.blocks.popleft()[1]
        if not backlog.blocks:
            backlog.seconds = 0.0
        return backlog.seconds

    def _update_shedding(self, machine: str, backlog: _Backlog, waiting: float) -> None:
        """Decide whether the next block is used for adaptation, and note when that changes."""
        if not backlog.shedding and waiting > self.config.shed_above:
            text = f"{waiting:.1f} s behind: learning is shed"
        elif backlog.shedding and waiting < self.config.shed_below:
            text = "caught up: learning resumes"
        else:
            return
        self.command(machine, Command("remark", SERVICE, text))
        backlog.shedding = not backlog.shedding
