"""The dashboard: what the machines do and what the watch over them knows, in a browser.

Pages are drawn by NiceGUI, which brings all it needs: nothing is fetched from
elsewhere, so they work on a machine that no network reaches.
"""

from __future__ import annotations

from fastapi import FastAPI

from cgsa.live.plant import Plant
from cgsa.service.auth import Authenticator
from cgsa.service.dashboard.hall import PageContext
from cgsa.service.dashboard.router import hang_in


def mount(app: FastAPI, plant: Plant, guard: Authenticator) -> None:
    """Put the pages at ``/`` and ``/machine/{name}`` of an app, behind everything that it has already."""
    hang_in(app, PageContext(plant, guard))
