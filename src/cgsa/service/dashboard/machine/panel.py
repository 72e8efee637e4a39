"""What all panels of a machine's page share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cgsa.live.worker import Worker
from cgsa.nn.bundle import Manifest
from cgsa.service.dashboard.page_session import PageSession
from cgsa.service.dashboard.plant_view import PlantView


class Panel(ABC):
    """A part of the page.

    Parameters
    ----------
    visit
        Whose browser it is.
    machine
        Name of the machine.
    """

    def __init__(self, visit: PageSession, machine: str) -> None:
        self.visit, self.machine = visit, machine
        self.build()

    @property
    def board(self) -> PlantView:
        """Where to look."""
        return self.visit.context.view

    @property
    def worker(self) -> Worker:
        """Who watches the machine."""
        return self.visit.context.plant.worker(self.machine)

    @property
    def about(self) -> Manifest:
        """What the model says of itself."""
        return self.worker.watch.bundle.manifest

    @abstractmethod
    def build(self) -> None:
        """Draw it once, empty."""

    @abstractmethod
    async def refresh(self) -> None:
        """Show what there is now."""
