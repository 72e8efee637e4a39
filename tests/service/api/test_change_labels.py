"""From healthy recordings alone to a diagnosis: people label what they found, and the service names it from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np

from cgsa.data.recording import FloatArray
from tests.machines import RATE, ToyLibrary, healthy_bundle
from tests.service.running_service import BEGIN, MACHINE, running_service

BLOCK_SECONDS = 0.5
SETTINGS = {"method": {"change": {"seconds": 0.3, "healthy_start": True, "history_seconds": 96 * BLOCK_SECONDS}}}
SECONDS = 12


def signal(state: str, gain: float = 1.0) -> FloatArray:
    """Return some seconds of the toy machine at its first level."""
    found = ToyLibrary(seed=1).get(state, "low", severity="H", specimen=1).signal[:, round(RATE) : round(4 * RATE)]
    return np.asarray(gain * np.tile(found, 4), dtype=np.float32)


def change_now(client: httpx.Client) -> dict[str, Any]:
    """Return the change that the newest diagnosis reports."""
    rows = client.get("/api/diagnoses", params={"machine": MACHINE, "limit": 1}).json()["rows"]
    found: dict[str, Any] = rows[0]["diagnosis"]["change"]
    return found


def test_labels_name_one_change_after_the_other_and_a_healthy_one_ends_a_false_alarm(tmp_path: Path) -> None:
    with (
        running_service(tmp_path, model=healthy_bundle(), machine_settings=SETTINGS) as service,
        service.client("operator") as client,
    ):
        fed = 0

        def feed(state: str, gain: float = 1.0) -> tuple[float, float]:
            """Feed some seconds, and return the interval in which only they are in the windows."""
            nonlocal fed
            begin = BEGIN + fed / 10
            service.feed_samples(signal(state, gain), first=fed)
            fed += 10 * SECONDS
            return begin + 1, BEGIN + fed / 10

        def label(state: str, interval: tuple[float, float]) -> None:
            finding = {"state": state, "begin": interval[0], "end": interval[1]}
            assert client.post(f"/api/machines/{MACHINE}/labels", json=finding).json() == {"done": True}

        feed("health")
        assert change_now(client)["score"] < 1
        worn = feed("wear")
        assert change_now(client)["score"] > 1
        assert change_now(client)["label"] is None
        label("worn gear", worn)
        feed("wear")
        assert change_now(client)["label"] == "worn gear"
        # Another fault is not mistaken for the labelled one, and has a name of its own once it is labelled.
        cracked = feed("crack")
        assert change_now(client)["label"] is None
        label("cracked tooth", cracked)
        feed("crack")
        assert change_now(client)["label"] == "cracked tooth"
        feed("wear")
        assert change_now(client)["label"] == "worn gear"
        # A condition that was mistaken for a change.
        loud = feed("health", gain=10.0)
        assert change_now(client)["score"] > 1
        label("health", loud)
        feed("health", gain=10.0)
        assert change_now(client)["score"] < 1
        notes = [one["text"] for one in client.get("/api/notes", params={"machine": MACHINE}).json()["rows"]]
        assert "worn gear is named from now on" in notes
        assert "health is a further healthy reference" in notes
