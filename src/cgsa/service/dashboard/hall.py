"""What a page needs to know of the service that it belongs to."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from cgsa.live.plant import Plant
from cgsa.service.auth import Authenticator
from cgsa.service.dashboard.plant_view import PlantView

KEY = "cgsa.hall"
"""Where the door of a service leaves it for the pages."""


class PageContext:
    """A service, as its pages see it.

    Parameters
    ----------
    plant
        Whose machines are shown.
    guard
        Says who may see and do what.
    """

    def __init__(self, plant: Plant, guard: Authenticator) -> None:
        self.plant = plant
        self.guard = guard
        self.board = PlantView(plant)
        """What all pages look at."""

    @classmethod
    def of(cls, connection: HTTPConnection) -> PageContext:
        """Return the service through whose door a request came."""
        hall = connection.scope[KEY]
        if not isinstance(hall, cls):
            raise TypeError(f"a request came through no door of the dashboard: {hall!r}")
        return hall
