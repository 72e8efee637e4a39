"""The sources of a running service, which may be exchanged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from cgsa.service.sources.base import Source

STOP_SECONDS = 10.0
"""How long a source may take to stop."""

_log = logging.getLogger(__name__)


class RunningSources:
    """Runs sources; iterating gives those of the moment."""

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self._sources = list(sources)
        self._tables: dict[Source, Mapping[str, object]] = {}
        """The settings of sources that were made from a table."""
        self._tasks: dict[Source, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __iter__(self) -> Iterator[Source]:
        return iter(tuple(self._sources))

    async def run(self) -> None:
        """Run the sources, and those that take their places; never returns by itself."""
        self._loop = asyncio.get_running_loop()
        try:
            for source in self:
                self._start(source)
            await asyncio.Event().wait()
        finally:
            self._loop = None
            await self._stop(list(self._tasks))

    def remember(self, tables: Sequence[Mapping[str, object]]) -> None:
        """Note the settings of the sources, in their order, so that those that stay the same are left alone."""
        self._tables = dict(zip(self._sources, tables, strict=True))

    def exchange(
        self, tables: Sequence[Mapping[str, object]], create: Callable[[Mapping[str, object]], Source]
    ) -> list[str]:
        """Run the sources of other settings; return the names of those that are new or gone.

        For another thread than that of the event loop. Sources with the same settings go on without an interruption.
        """
        kept = {source: table for source, table in self._tables.items() if table in tables}
        fresh = {create(table): table for table in tables if table not in kept.values()}
        gone = [source for source in self._sources if source not in kept]
        if self._loop is None:
            self._sources = [*kept, *fresh]
        else:
            asyncio.run_coroutine_threadsafe(self._exchange(gone, list(fresh)), self._loop).result(2 * STOP_SECONDS)
        self._tables = {**kept, **fresh}
        return sorted({source.status.name for source in (*gone, *fresh)})

    async def _exchange(self, gone: Sequence[Source], fresh: Sequence[Source]) -> None:
        # First those that go: the new one of a broker may have the same name there.
        await self._stop(gone)
        self._sources = [*(source for source in self._sources if source not in gone), *fresh]
        for source in fresh:
            self._start(source)

    def _start(self, source: Source) -> None:
        task = asyncio.create_task(source.run(), name=type(source).__name__)
        task.add_done_callback(_log_failure)
        self._tasks[source] = task

    async def _stop(self, sources: Sequence[Source]) -> None:
        tasks = [self._tasks.pop(source) for source in sources if source in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("%s ended", task.get_name(), exc_info=task.exception())
