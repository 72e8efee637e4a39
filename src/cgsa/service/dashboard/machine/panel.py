"""Base class of the panels on the page of a machine."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cgsa.live.monitored import MonitoredMachine
from cgsa.nn.bundle import Manifest
from cgsa.service.dashboard.page_session import PageSession
from cgsa.service.dashboard.plant_view import PlantView


class Panel(ABC):
    """A part of the page."""

    def __init__(self, session: PageSession, machine: str) -> None:
        self.session, self.machine = session, machine
        self.build()

    @property
    def view(self) -> PlantView:
        """What pages show of the plant."""
        return self.session.context.view

    @property
    def worker(self) -> MonitoredMachine:
        """MonitoredMachine of the machine."""
        return self.session.context.plant.worker(self.machine)

    @property
    def manifest(self) -> Manifest:
        """Manifest of the machine's model."""
        return self.worker.manifest

    @abstractmethod
    def build(self) -> None:
        """Build the elements, without data."""

    @abstractmethod
    async def refresh(self) -> None:
        """Show the newest data."""
