"""Every way to fool the commissioning ends in a wait or a question, from a file and in a service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import FloatArray, Recording
from cgsa.events import CommissioningStatus, Diagnosis, Note
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.worker import WorkerConfig
from tests.cli.running import run_cgsa
from tests.machines import RATE, ensemble_bundle
from tests.starts import FOOLING, steady

BLOCK = 100
MACHINE = "pump"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return ensemble_bundle().save(tmp_path / "model")


def written(folder: Path, samples: FloatArray) -> Path:
    path = folder / "start.parquet"
    write_parquet(Recording(samples, RATE, ("a", "b"), ("g", "g"), source="x"), path)
    return path


def streamed(model: Path, samples: FloatArray, *words: str) -> list[dict[str, object]]:
    lines = run_cgsa("stream", model, written(model.parent, samples), *words, "--device", "cpu", "--json").splitlines()
    return [json.loads(line)["commissioning"] for line in lines]


class Machine:
    """A machine of a plant, and everything that it reported."""

    def __init__(self, model: Path, settings: dict[str, object] | None = None) -> None:
        self.events: list[object] = []
        self.plant = Plant(model.parent / "plant", threads=1, config=WorkerConfig(shed_above=60.0))
        self.plant.subscribe(lambda _, __, events: self.events.extend(events))
        self.plant.add(MachineConfig(MACHINE, model, settings=settings or {}))
        self.sent = 0

    def feed(self, samples: FloatArray) -> None:
        for begin in range(0, samples.shape[1], BLOCK):
            part = np.ascontiguousarray(samples[:, begin : begin + BLOCK])
            self.plant.submit(Block(MACHINE, self.sent, self.sent * BLOCK / RATE, RATE, ("a", "b"), part))
            self.sent += 1
        self.plant.wait_until_idle()

    def command(self, command: Command) -> None:
        self.plant.worker(MACHINE).command(command).result(10)

    @property
    def status(self) -> CommissioningStatus:
        found = self.plant.worker(MACHINE).status().commissioning
        assert found is not None
        return found

    @property
    def diagnoses(self) -> list[Diagnosis]:
        return [event for event in self.events if isinstance(event, Diagnosis)]

    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note) and event.topic == "commissioning"]


@pytest.mark.parametrize("name", list(FOOLING))
def test_a_stream_waits_or_asks(model: Path, name: str) -> None:
    samples, expected = FOOLING[name]
    found = streamed(model, samples)
    assert {status["state"] for status in found} <= {"waiting", "question"}
    assert not any(status["reference"] for status in found)
    assert any(str(status["text"]).startswith(expected) for status in found)
    page = run_cgsa("stream", model, written(model.parent, samples), "--device", "cpu")
    assert expected in " ".join(page.split())
    assert ("--healthy-start" in page) == expected.startswith("question")


@pytest.mark.parametrize("name", list(FOOLING))
def test_a_service_waits_or_asks(model: Path, name: str) -> None:
    samples, expected = FOOLING[name]
    machine = Machine(model)
    with machine.plant:
        machine.feed(samples)
    assert {event.commissioning.state for event in machine.diagnoses if event.commissioning} <= {"waiting", "question"}
    assert all(event.commissioning is not None for event in machine.diagnoses)
    # One note, not one per batch.
    (note,) = machine.notes()
    assert note.startswith(expected)


@pytest.mark.parametrize("name", [name for name in FOOLING if name not in {"fault", "strange"}])
def test_what_is_unsuitable_is_no_reference_of_a_machine_that_is_known_to_be_healthy(model: Path, name: str) -> None:
    samples, expected = FOOLING[name]
    found = streamed(model, samples, "--healthy-start")
    assert {status["state"] for status in found} == {"waiting"}
    assert any(str(status["text"]).startswith(expected) for status in found)


def test_a_healthy_start_needs_no_answer(model: Path) -> None:
    for words in ((), ("--healthy-start",)):
        found = streamed(model, steady("health"), *words)
        assert found[-1]["text"] == "commissioned: no reference needed"


def test_commissioning_begins_when_the_cause_is_gone(model: Path) -> None:
    samples = np.concatenate([FOOLING["standstill"][0], steady("health", strange=2.0)], axis=1)
    found = streamed(model, samples, "--healthy-start")
    assert found[0]["cause"] == "standstill"
    assert found[-1]["text"] == "commissioned: reference of this machine in use"


def test_a_confirmed_machine_is_healthy_and_its_alarm_clears(model: Path) -> None:
    strange = steady("health", strange=2.0)
    machine = Machine(model)
    with machine.plant:
        machine.feed(strange)
        # Until there is an answer, the frozen model reports, and its alarm is active.
        assert (machine.diagnoses[-1].state, machine.diagnoses[-1].alarm) == ("wear", "wear")
        machine.command(Command("confirm_healthy", "ann", "inspected"))
        assert (machine.status.state, machine.status.reference) == ("done", True)
        machine.feed(strange)
        assert (machine.diagnoses[-1].state, machine.diagnoses[-1].alarm) == ("health", None)
    (*_, answer) = machine.notes()
    assert answer == "confirmed as healthy; commissioned: reference of this machine in use, by ann"


def test_a_machine_marked_as_faulty_keeps_the_verdict_of_the_frozen_model(model: Path) -> None:
    machine = Machine(model)
    with machine.plant:
        machine.feed(steady("wear"))
        machine.command(Command("mark_faulty", "ann"))
        machine.feed(steady("wear"))
        assert machine.status.state == "faulty"
        assert (machine.diagnoses[-1].state, machine.diagnoses[-1].alarm) == ("wear", "wear")


def test_questions_answers_and_references_survive_a_restart(model: Path) -> None:
    settings: dict[str, object] = {"method": {"commissioning": {"history_seconds": 480.0}}}
    strange = steady("health", strange=2.0)

    def restarted(before: Machine) -> Machine:
        machine = Machine(model, settings)
        machine.sent = before.sent
        assert machine.status == expected
        return machine

    machine = Machine(model, settings)
    with machine.plant:
        machine.feed(strange)
        expected = machine.status
        assert expected.state == "question"
    machine = restarted(machine)
    with machine.plant:
        machine.command(Command("confirm_healthy", "ann"))
        expected = machine.status
        assert expected.reference
    machine = restarted(machine)
    with machine.plant:
        machine.feed(strange)
        assert machine.diagnoses[-1].state == "health"
        machine.command(Command("withdraw_reference", "ann"))
        expected = machine.status
        assert expected.state == "withdrawn"
    machine = restarted(machine)
    with machine.plant:
        # The history of the first two processes is known to the third.
        machine.command(Command("take_reference", "ann", details={"begin": 0.0, "end": 6.0}))
        assert machine.status.reference
        machine.command(Command("commission", "ann", "repaired", {"healthy": False}))
        expected = machine.status
        assert (expected.state, expected.observed) == ("waiting", 0.0)
    machine = restarted(machine)
    with machine.plant:
        machine.feed(steady("health"))
        assert machine.status.text == "commissioned: no reference needed"
