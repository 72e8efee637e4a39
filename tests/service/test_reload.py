"""A running service takes over a changed configuration without losing a block, or refuses it as a whole."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.cli.reload import process_of
from cgsa.errors import ConfigError, DataError, UnavailableError
from cgsa.events import Diagnosis
from cgsa.live import plant as plant_module
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import RowSelection
from cgsa.nn.bundle import ModelBundle
from cgsa.service.config import ServiceConfig
from cgsa.service.reload import RESULT_FILE, Reloader, ReloadResult
from cgsa.service.reload_signal import ignoring_hangups, reloading
from cgsa.service.service import Service, create_service
from tests.live.stream import blocks
from tests.live.stream import signal as samples
from tests.machines import bundle
from tests.service.test_configuration_check import certificate

FILE = """
folder = "plant"
port = 0

[worker]
shed_above = 60

{machines}
"""
MACHINE = """
[[machines]]
name = "{name}"
bundle = "{model}"
profile = "paper"
settings = {{ stream = {{ batch_size = 64 }} }}
"""
BATCH = 64


class Running:
    """A service whose configuration can be changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plant.toml"
        for number, name in enumerate(("model", "other")):
            bundle(seed=number).save(folder / name)
        self.write(toy="model")
        self.service: Service = create_service(self.load())
        self.reloader = Reloader(self.service, self.load)

    @property
    def plant(self) -> Plant:
        return self.service.plant

    def load(self) -> ServiceConfig:
        return ServiceConfig.load(self.path)

    def write(self, *more: str, **models: str) -> None:
        """Write a configuration with machines and their models."""
        machines = "".join(MACHINE.format(name=name, model=model) for name, model in models.items())
        self.path.write_text(FILE.format(machines=machines + "".join(more)))

    def reload(self, *more: str, **models: str) -> ReloadResult:
        self.write(*more, **models)
        return self.reloader.reload()

    def diagnoses(self, machine: str = "toy") -> list[Diagnosis]:
        self.plant.wait_until_idle()
        self.plant.store.flush()
        with self.plant.store.read() as snapshot:
            rows = snapshot.diagnoses(machine, RowSelection(limit=1000, newest_first=False)).rows
        return [row.diagnosis for row in rows]


@contextmanager
def serving(service: Service) -> Iterator[None]:
    """Run the service in a thread until the end of the context."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=service.server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not service.server.started and thread.is_alive():
                thread.join(0.01)
            yield
        finally:
            service.server.should_exit = True
            thread.join()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    with serving(found.service):
        yield found


def send(plant: Plant, sent: list[Block], pause: float = 0.0) -> int:
    """Send blocks as a gateway does: again while the machine can take none. Return how often that was."""
    repeated = 0
    for block in sent:
        while True:
            try:
                plant.submit(block)
                break
            except UnavailableError:
                repeated += 1
                time.sleep(0.002)
        time.sleep(pause)
    return repeated


def test_an_exchange_of_settings_changes_no_verdict(running: Running) -> None:
    sent = blocks(samples(6.0, "wear"))
    send(running.plant, sent[:27])
    result = running.reload("[machines.alarms]\non_delay = 0.5\n", toy="model")
    assert (result.refused, result.changed) == ("", ("toy",))
    assert running.plant.worker("toy").watch.config.alarms.on_delay == 0.5
    send(running.plant, sent[27:])
    found = running.diagnoses()
    send(running.plant, [])
    running.plant.add(
        MachineConfig("twin", running.path.parent / "model", "paper", None, {"stream": {"batch_size": 64}})
    )
    send(running.plant, [replace(block, machine="twin") for block in sent])
    twin = running.diagnoses("twin")
    assert [replace(one, source="") for one in found] == [replace(one, source="") for one in twin]


@pytest.mark.parametrize("change", ["model", "settings"])
def test_no_block_is_lost_while_blocks_come(running: Running, change: str) -> None:
    sent = blocks(samples(6.0))
    sender = threading.Thread(target=send, args=(running.plant, sent, 0.005))
    sender.start()
    for number in range(3):
        model = ("other", "model", "other")[number] if change == "model" else "model"
        result = running.reload(f"[machines.alarms]\non_delay = {number + 1}\n", toy=model)
        assert result.refused == ""
        assert result.changed == ("toy",)
    sender.join()
    found = running.diagnoses()
    assert [one.batch for one in found] == list(range(len(found)))
    # Every window of the signal is in one batch, but for those across an exchange of the model, and the last few.
    windows = sum(one.windows for one in found)
    spec = running.plant.worker("toy").watch.bundle.manifest.window
    whole = (6000 - spec.length) // spec.step + 1
    across = 3 * (spec.length // spec.step) if change == "model" else 0
    assert whole - across - BATCH <= windows <= whole
    status = running.plant.worker("toy").status()
    assert status.counts.gaps == 0
    with running.plant.store.read() as snapshot:
        gaps = snapshot.notes("toy", topic="gap").rows
    assert gaps == ()


def test_machines_come_and_go(running: Running) -> None:
    send(running.plant, blocks(samples(1.0)))
    result = running.reload(fan="other", pump="model")
    assert (result.added, result.removed, result.changed) == (("fan", "pump"), ("toy",), ())
    assert set(running.plant.workers) == {"fan", "pump"}
    with pytest.raises(DataError, match="no machine 'toy' is watched"):
        running.plant.submit(blocks(samples(0.2))[0])
    assert running.diagnoses("toy")
    result = running.reload(toy="model", fan="other", pump="model")
    assert (result.added, result.removed) == (("toy",), ())
    # It resumes where it stopped.
    assert running.plant.worker("toy").watch.counts.blocks == 10
    assert str(running.reload(toy="model", fan="other", pump="model")) == "nothing has changed"


def test_a_model_whose_files_have_changed_is_exchanged(running: Running) -> None:
    send(running.plant, blocks(samples(1.0)))
    bundle(seed=5).save(running.path.parent / "model")
    assert running.reload(toy="model").changed == ("toy",)
    assert running.plant.worker("toy").watch.bundle.sha256 == ModelBundle.load(running.path.parent / "model").sha256


@pytest.mark.parametrize(
    ("more", "models", "message"),
    [
        ('[[sinks]]\nkind = "pigeon"\n', {"toy": "model"}, "pigeon"),
        ('[[sources]]\nkind = "replay"\nmachine = "absent"\nfiles = ["x"]\n', {"toy": "model"}, "no machine 'absent'"),
        ("[limits]\nstreems = 1\n", {"toy": "model"}, "did you mean 'streams'"),
        ("", {"toy": "absent"}, "absent"),
        ("", {"toy": "other", "fan": "absent"}, "absent"),
        ("nonsense", {"toy": "model"}, "plant.toml"),
    ],
)
def test_a_faulty_configuration_changes_nothing(
    running: Running, more: str, models: dict[str, str], message: str
) -> None:
    before = dict(running.plant.workers)
    result = running.reload(more, **models)
    assert message in result.refused
    assert str(result).startswith("refused, the former configuration stays: ")
    assert running.plant.workers == before
    assert not before["toy"].stopped
    send(running.plant, blocks(samples(1.0)))
    assert running.diagnoses()


def test_results_are_in_audit_and_file(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    running.reload(toy="absent")
    running.reload(toy="model", fan="model")
    running.plant.store.flush()
    with running.plant.store.read() as snapshot:
        entries = [one for one in snapshot.audit(who="service").rows if one.what == "reload the configuration"]
    assert entries[0].result == "added fan"
    assert "refused" in entries[1].result
    assert "configuration reloaded: added fan" in caplog.text
    answer = json.loads((running.plant.folder / RESULT_FILE).read_text())
    assert (answer["added"], answer["refused"], answer["text"]) == (["fan"], "", "added fan")


def test_another_folder_is_refused_and_others_need_a_restart(running: Running) -> None:
    running.path.write_text(running.path.read_text().replace('"plant"', '"elsewhere"'))
    assert "restart it for another folder" in running.reloader.reload().refused
    running.write(toy="model")
    running.path.write_text("threads = 3\nhost = 'localhost'\n" + running.path.read_text())
    result = running.reloader.reload()
    assert result.restart == ("host", "threads")
    assert str(result) == "only after a restart: host, threads"


def test_a_machine_that_cannot_finish_stays_as_it_is(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plant_module, "RETIRE_SECONDS", 0.05)
    worker = running.plant.worker("toy")
    monkeypatch.setattr(worker, "work", lambda: False)
    send(running.plant, blocks(samples(1.0)))
    result = running.reload("[machines.alarms]\non_delay = 0.5\n", toy="model")
    assert "toy: its blocks are not diagnosed after 0.05 s; it stays as it is" in result.refused
    assert running.plant.worker("toy") is worker
    monkeypatch.undo()
    send(running.plant, blocks(samples(2.0))[10:])
    assert running.diagnoses()


def test_sources_and_sinks_are_exchanged(running: Running, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    source = '[[sources]]\nkind = "folder"\nname = "{}"\nfolder = "incoming"\nfiles = "*.csv"\nmachine = "toy"\n'
    sink = '[[sinks]]\nkind = "webhook"\nname = "{}"\nurl = "http://127.0.0.1:9/"\n'
    result = running.reload(source.format("one"), sink.format("desk"), toy="model")
    assert (result.refused, result.sources, result.sinks) == ("", ("one",), True)
    (first,) = running.service.sources
    (delivery,) = running.service.sinks
    assert delivery.status.name == "desk"
    # What waits for a sink stays when others come, and so does a source whose settings are the same.
    send(running.plant, blocks(samples(6.0, "wear")))
    running.plant.wait_until_idle()
    assert delivery.waiting > 0
    waiting = delivery.waiting
    result = running.reload(
        source.format("one"), source.format("two"), sink.format("desk"), sink.format("new"), toy="model"
    )
    assert result.sources == ("two",)
    assert next(iter(running.service.sources)) is first
    assert {one.status.name: one.waiting for one in running.service.sinks} == {"desk": waiting, "new": 0}
    result = running.reload(toy="model")
    assert (result.sources, result.sinks) == (("one", "two"), True)
    assert [*running.service.sources, *running.service.sinks] == []


def test_a_certificate_is_read_again(tmp_path: Path) -> None:
    certificate(tmp_path, (-1, 300))
    found = Running.__new__(Running)
    found.path = tmp_path / "plant.toml"
    bundle().save(tmp_path / "model")
    found.write(toy="model")
    found.path.write_text('tls_certificate = "cert.pem"\ntls_key = "key.pem"\n' + found.path.read_text())
    found.service = create_service(found.load())
    found.reloader = Reloader(found.service, found.load)
    with serving(found.service):
        certificate(tmp_path, (-1, 200))
        assert found.reloader.reload().refused == ""
        (tmp_path / "key.pem").write_text("nonsense")
        assert "cert.pem: cannot be used" in found.reloader.reload().refused


def test_the_command_finds_the_service_and_no_other_process(running: Running, tmp_path: Path) -> None:
    lock = running.plant.folder / "store.sqlite.lock"
    assert process_of(lock) == os.getpid()
    other = tmp_path / "other.lock"
    other.write_text(str(os.getpid()))
    with pytest.raises(ConfigError, match="is not the service"):
        process_of(other)
    other.write_text("999999999")
    with pytest.raises(ConfigError, match="cannot be examined"):
        process_of(other)


def test_the_signal_reloads(tmp_path: Path) -> None:
    class Counter:
        calls = 0

        def reload(self) -> None:
            Counter.calls += 1

    before = signal.getsignal(signal.SIGHUP)
    with reloading(Counter()):
        for number in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            limit = time.monotonic() + 10
            while Counter.calls < number:
                assert time.monotonic() < limit
                time.sleep(0.005)
    assert signal.getsignal(signal.SIGHUP) == before
    with reloading(None):
        assert signal.getsignal(signal.SIGHUP) == before
    with ignoring_hangups():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) == before
