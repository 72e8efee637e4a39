"""The page before a service is ready, on the socket that the service takes over."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

from cgsa.live.store import Store
from cgsa.service.auth import Authenticator
from cgsa.service.login import login_link
from cgsa.service.starting import PROGRESS, StartProgress, starting_page
from tests.service.dashboard.screenshots import DESKTOP, PHONE, browser
from tests.service.running_service import running_service


def early_token(folder: Path) -> str:
    """Return a token that is created before the service starts."""
    folder.mkdir()
    store = Store(folder / "store.sqlite")
    token = Authenticator(store).create_token("early", "admin")
    store.close()
    return token


def test_steps_follow_one_another_with_the_time_left() -> None:
    now = 0.0
    progress = StartProgress("simulate", "train", "write", clock=lambda: now)
    assert [step["state"] for step in progress.steps()] == ["waiting"] * 3
    progress.update("simulate", 0, 100)
    now = 10.0
    progress.update("simulate", 4, 100)
    assert progress.steps()[0]["seconds_left"] is None, "too early for an estimate"
    progress.update("simulate", 20, 100)
    assert progress.steps()[0]["seconds_left"] == pytest.approx(40.0)
    progress.update("train", 0, 0)
    progress.update("train it held out", 1, 2)
    found = progress.steps()
    assert [step["name"] for step in found] == ["simulate", "train", "train it held out", "write"]
    assert [step["state"] for step in found] == ["done", "done", "running", "waiting"]
    progress.update("write", 3, 3)
    assert [step["state"] for step in progress.steps()] == ["done"] * 3 + ["running"], "it may still tidy up"
    assert progress.steps()[-1]["seconds_left"] is None


@given(reports=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_whatever_is_reported_the_steps_stay_in_order(reports: list[tuple[str, int, int]]) -> None:
    now = 0.0
    progress = StartProgress("a", "b", "c", clock=lambda: now)
    for name, done, total in reports:
        now += 1
        progress.update(name, done, total)
        steps = progress.steps()
        place = next(index for index, step in enumerate(steps) if step["name"] == name)
        assert all(step["state"] == "done" for step in steps[:place])
        assert steps[place]["state"] != "waiting"
        assert {"a", "b", "c"} <= {step["name"] for step in steps}


def test_programs_are_told_to_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with starting_page(listening, StartProgress("one")), httpx.Client(base_url=url, timeout=20) as client:
            assert client.get("/health").json() == {"status": "starting"}
            for answer in (client.get("/ready"), client.post("/api/blocks"), client.get("/api/machines")):
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
                assert answer.json()["reasons"] == ["the service is being prepared"]
            page = client.get("/machine/gearbox-1")
            assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert "unsafe" not in page.headers["Content-Security-Policy"]


@pytest.mark.usefixtures("chromium")
def test_a_login_link_shows_the_progress_and_then_logs_in(tmp_path: Path) -> None:
    progress = StartProgress("Simulate recordings", "Train a model")
    with socket.create_server(("127.0.0.1", 0)) as listening, browser() as context:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        token = early_token(tmp_path / "plant")
        errors: list[str] = []
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        with starting_page(listening, progress):
            # As printed at the start; the token was created before.
            page.goto(login_link(address, token))
            expect(page.get_by_text("Train a model")).to_be_visible()
            expect(page.locator("li").nth(0).locator(".state")).to_have_text("waiting")
            progress.update("Simulate recordings", 6, 24)
            expect(page.locator("li").nth(0).locator(".state")).to_contain_text("25 %, ")
            expect(page.get_by_role("progressbar", name="Simulate recordings")).to_have_attribute("value", "6")
            progress.update("Train a model", 0, 0)
            expect(page.locator("li").nth(0).locator(".state")).to_have_text("done")
            expect(page.locator("li").nth(1).locator(".state")).to_have_text("running")
            for width, height in (PHONE, DESKTOP):
                page.set_viewport_size({"width": width, "height": height})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # Its questions wait at the socket until the service listens.
        with running_service(tmp_path, listening=listening, dashboard=True) as service:
            expect(page.get_by_role("banner").get_by_text("early, admin")).to_be_visible(timeout=30_000)
            assert page.url == f"{address}/"
            with service.client("viewer") as client:
                assert client.get(PROGRESS).status_code == 404, "by which the page knows the service"
        assert errors == []
        with socket.create_server(("127.0.0.1", 0)) as failing, starting_page(failing, progress):
            page.goto(f"http://127.0.0.1:{failing.getsockname()[1]}")
            expect(page.get_by_role("status")).to_have_text("This page leads on by itself.")
        expect(page.get_by_role("status")).to_contain_text("No answer", timeout=30_000)
