"""Files that version 0.1.0 wrote can still be read and lead to the same results.

``tests/fixtures/v0_1_0/make.py`` made the fixtures with version 0.1.0 and recorded in ``expected.json`` what the
functions below returned. Floats must be equal to the last bit if PyTorch rounds here as it did on the machine that made
the fixtures, and equal to about three digits otherwise. Where possible, files, databases and command output are read
without the package itself, because users of 0.1.0 read them that way too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from pyarrow import parquet
from typer.testing import CliRunner

from cgsa import METHODS, OBJECTIVES, ModelBundle, Profile, Scenario
from cgsa.bench.plan import Plan
from cgsa.cli import app
from cgsa.config import as_table, bind
from cgsa.errors import BundleError
from cgsa.service.config import ServiceConfig
from cgsa.service.links.settings import bind_link
from cgsa.service.service import create_service
from cgsa.service.sinks.alarm_sinks import SINKS
from cgsa.service.sources import SOURCES

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1_0"
BUNDLES = ("cal", "cal_two", "plain", "robust")
PROFILES = {"cal": "machine/paper.toml", "plain": "machine/paper.toml", "robust": "machine/robust.toml"}
"""The profile of each bundle that recordings are streamed through."""
FOR_ANY_BUNDLE = (
    "accup",
    "adacontrast",
    "cofa",
    "cotta",
    "lame",
    "oafd",
    "roid",
    "rotta",
    "sar",
    "source",
    "surgeon",
    "tent_full",
)
STREAMED = (
    *(("cal", method) for method in ("cgsa", *FOR_ANY_BUNDLE)),
    *(("robust", method) for method in ("reference", *FOR_ANY_BUNDLE)),
    ("plain", "source"),
)
"""Each bundle with the methods it supports; ``cgsa stream`` cannot run methods that need the training windows."""
MACHINES = ("press-1", "press-2")
RENAMED: Mapping[str, str] = {
    "usual_ties": "usual_equal_samples",
    "later": "latest_accuracy",
    "most_waiting": "max_waiting",
    "lanes": "threads",
}
"""Settings renamed since 0.1.0, old name to new name. Files may use either."""
PROSE = frozenset({"note", "text"})
"""Fields with sentences, which later versions may reword. Texts of users are compared where the store holds them."""
ADDED = {"change", "commissioning", "sensor_question"}
"""Fields that 0.1.0 did not have; null for its methods."""
MEASURED = {"levels", "operation"}
"""Fields that 0.1.0 did not have, and that are measured whatever the method is."""
TIME_DIGITS = 9
"""Seconds are compared to the nanosecond: files and live signals now add them up in one order, which 0.1.0 did not."""
CLOSE = {"rel_tol": 1e-3, "abs_tol": 1e-4}
"""Tolerance on a machine that rounds differently."""


# The results of each fixture. make.py called these functions to write expected.json.


def rounding() -> str:
    """Return a digest of PyTorch arithmetic like the package's; if it differs, so do the last digits of results."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 2, 32, generator=generator)
    y = torch.randint(3, (64,), generator=generator)
    features = torch.cat([x.flatten(1), torch.log1p(torch.fft.rfft(x).abs()).flatten(1)], dim=1)
    weights = [torch.randn(a, b, generator=generator) / a**0.5 for a, b in ((features.shape[1], 16), (16, 8), (8, 3))]
    for weight in weights:
        weight.requires_grad_(requires_grad=True)
    optimizer = torch.optim.Adam(weights, 1e-2)
    for _ in range(20):
        scores = torch.relu(torch.relu(features @ weights[0]) @ weights[1]) @ weights[2]
        gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, y), weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimizer.step()
    return digest(*(weight.detach().numpy().tobytes() for weight in weights))


def vectors() -> str:
    """Return the vector instructions that PyTorch uses; sums over wider vectors round differently."""
    return torch.backends.cpu.get_cpu_capability()


def predictions(folder: Path, bundle: str) -> dict[str, Any]:
    """Return the class probabilities of fixed windows, and the manifest."""
    model = ModelBundle.load(folder / "bundles" / bundle)
    about = model.manifest
    rng = np.random.default_rng(7)
    x = torch.from_numpy(rng.standard_normal((6, len(about.channels), about.window.length)).astype(np.float32))
    method = METHODS["source"](model, {}, seed=0)
    return {"probabilities": method.predict(x).tolist(), "manifest": table(about)}


def streamed(folder: Path, bundle: str, method: str, into: Path) -> dict[str, Any]:
    """Run ``cgsa stream`` on the recording; return the printed events and the ledger."""
    words = ["--profile", PROFILES[bundle], "--method", method, "--device", "cpu", "--json", "--ledger", into]
    printed = command(folder, "stream", f"bundles/{bundle}", "recording.parquet", *words)
    events = [without_prose(json.loads(line)) for line in printed.splitlines()]
    for event in events:
        event |= {name: round(event[name], TIME_DIGITS) for name in ("begin", "end")}
    whole = method in {"cgsa", "reference"}
    return {
        "events": events if whole else events[-1:],
        "states": [event["state"] for event in events],
        "sha256": digest(json.dumps(events).encode()),
        "ledger": ledger_rows(into),
    }


def ledger_rows(folder: Path) -> dict[str, Any]:
    """Return a digest and the last values of each column of a ledger."""
    columns: dict[str, list[Any]] = {}
    for part in sorted(folder.glob("part-*.parquet")):
        for name, values in parquet.read_table(part).to_pydict().items():
            exact = [round(value, TIME_DIGITS) for value in values] if name == "time" else values
            columns.setdefault(name, []).extend(exact)
    return {
        name: {"rows": len(values), "last": values[-3:], "sha256": digest(json.dumps(values).encode())}
        for name, values in columns.items()
    }


def resumed(folder: Path, model: str, profile: str) -> dict[str, Any]:
    """Finish a training that was stopped in 0.1.0 with ``cgsa train``; return the trained weights and the history."""
    command(folder, "train", *training_arguments(model, profile))
    bundle = ModelBundle.load(folder / "training" / model)
    modules = filter(None, (bundle.network, bundle.discriminator, bundle.known))
    tensors = [tensor for module in modules for tensor in module.state_dict().values()]
    return {
        "history": without_prose(bundle.training["history"]),
        "means": [float(tensor.double().abs().mean()) for tensor in tensors],
        "sha256": digest(*(tensor.numpy().tobytes() for tensor in tensors)),
        "calibration": None if bundle.manifest.calibration is None else as_table(bundle.manifest.calibration),
    }


def training_arguments(model: str, profile: str) -> list[str]:
    """Return the arguments of the command that was stopped."""
    words = ["machine/scenario.toml", f"training/{model}", "--data", "machine/data", "--profile", profile]
    return [*words, "--seed", "5", "--device", "cpu", "--json"]


def restarted(folder: Path) -> dict[str, Any]:
    """Restart the plant, let it process the waiting journal entries, and return events, store and outbox."""
    service = create_service(ServiceConfig.load(folder / "live" / "service.toml"))
    events: dict[str, list[Any]] = {machine: [] for machine in MACHINES}

    def add(machine: str, position: int, new: Sequence[Any]) -> None:
        events[machine] += [[position, without_prose(json.loads(event.to_json()))] for event in new]

    service.plant.subscribe(add)
    with service.plant as plant:
        plant.wait_until_idle()
    return {
        "events": events,
        "store": store_rows(folder / "live" / "plant"),
        "outbox": outbox_messages(folder / "live"),
    }


def api_responses(folder: Path, secret: str) -> dict[str, Any]:
    """Return the responses of the API to a request with a token of 0.1.0, before the service processes anything."""
    service = create_service(ServiceConfig.load(folder / "live" / "service.toml"))
    web: Any = service.server.config.app

    async def request() -> dict[str, Any]:
        transport = httpx.ASGITransport(web)
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            found = {path: await client.get(f"/api/{path}") for path in REQUESTS}
            found["cases with a wrong token"] = await client.get("/api/cases", headers={"Authorization": "Bearer x"})
        return {path: {"status": answer.status_code, "body": body_of(answer)} for path, answer in found.items()}

    try:
        return asyncio.run(request())
    finally:
        service.plant.stop()


REQUESTS = (
    "cases",
    "notes?machine=press-2",
    "diagnoses?machine=press-1&limit=3",
    *(f"machines/{machine}/{what}" for machine in MACHINES for what in ("cases/1", "states")),
    "machines/press-2/ledger?begin=1790000004.0&end=1790000004.1",
)


def body_of(answer: httpx.Response) -> Any:
    return answer.json() if answer.headers["content-type"] == "application/json" else {"sha256": digest(answer.content)}


def store_rows(plant: Path) -> dict[str, Any]:
    """Return the tables of a store as JSON, ordered by machine and position."""
    found: dict[str, Any] = {}
    with closing(sqlite3.connect(plant / "store.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        for table, order in STORED.items():
            rows = connection.execute(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - the names below
            found[table] = [stored_row(table, dict(row)) for row in rows]
    return found


STORED = {
    "diagnoses": "machine, batch",
    "ledger": "machine, batch",
    "notes": 'machine, position, "index"',
    "cases": "machine, number",
    "alarm_changes": 'machine, position, "index"',
    "comments": 'machine, position, "index"',
    "labels": 'machine, position, "index"',
    "snippets": 'machine, position, "index"',
    "tokens": "name",
    "audit": "time",
}


NEW_OF_LEDGER = ("last_batch", "stage")
NEW_OF_TOKENS = ("machines", "expires", "previous", "previous_until")
"""Columns that 0.1.0 did not have."""


def stored_row(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON, without its id and arrival and with a digest instead of packed samples."""
    del row["id"]
    row.pop("arrived", None)
    if table == "ledger":
        # Nothing is thinned yet.
        assert [row.pop(name) for name in NEW_OF_LEDGER] == [None, 0]
    if table == "tokens":
        # A token of 0.1.0 has no limits.
        assert [row.pop(name) for name in NEW_OF_TOKENS] == ["[]", None, None, None]
    if table in {"diagnoses", "notes"}:
        row = without_prose(row)
    for name in ("probabilities", "details", "faults", "case", "layout", "channels"):
        if isinstance(row.get(name), str):
            row[name] = json.loads(row[name])
    if "data" in row:
        row["data"] = {"sha256": digest(zlib.decompress(row["data"]))}
    return row


def outbox_messages(live: Path) -> list[Any]:
    """Return the unsent messages of the outbox, machine by machine, read from the records of its journal."""
    head = struct.Struct("<4s12sQIII")
    found = []
    for path in sorted((live / "plant" / "outbox" / "letters").glob("*.journal")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            _, _, _, size, *_ = head.unpack_from(data, place)
            place += head.size
            message = json.loads(data[place : place + size])
            del message["noticed"]  # wall-clock time
            found.append(message)
            place += size
    return sorted(found, key=lambda message: (message["machine"], message["position"], message["index"]))


def bound(folder: Path) -> dict[str, Any]:
    """Return the settings that the package reads from the TOML files.

    Tables that a later step binds, such as those of sources, are returned as that step binds them.
    """
    os.chdir(folder / "settings")
    service = ServiceConfig.load(Path("service.toml"))
    profile = Profile.load("profile.toml")
    builtin = {name: Profile.load(name) for name in ("paper", "quick", "robust")}
    methods = {name: bind(METHODS[name].Config, profile.method_settings(name), name) for name in METHODS}
    objectives = {name: bind(OBJECTIVES[name].Config, profile.objective_settings(name), name) for name in OBJECTIVES}
    return {
        "service": without(table(service), "sources", "sinks"),
        "sources": [[name, table(config)] for name, _, config in (bind_link(SOURCES, one) for one in service.sources)],
        "sinks": [[name, table(config)] for name, _, config in (bind_link(SINKS, one) for one in service.sinks)],
        "profile": without(table(profile), "method", "objective"),
        "methods": {name: table(config) for name, config in methods.items()},
        "objectives": {name: table(config) for name, config in objectives.items()},
        "profiles": {name: without(table(one), "method", "objective") for name, one in builtin.items()},
        "plan": table(Plan.load("plan.toml")),
        "plan_like": table(Plan.load("plan_like.toml")),
        "scenario": table(Scenario.load("scenario.toml")),
        "scenario_two_conditions": table(Scenario.load("scenario_two_conditions.toml")),
        "live": without(table(ServiceConfig.load(Path("../live/service.toml"))), "sinks"),
    }


# Helper functions.


def command(folder: Path, *words: object) -> str:
    """Run a command in a folder, so that printed paths do not depend on where it is; return its output."""
    os.chdir(folder)
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def table(settings: Any) -> Any:
    """Return a dataclass as JSON."""
    return json.loads(json.dumps(asdict(settings), default=str))


def without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in names}


def without_prose(value: Any) -> Any:
    """Remove the sentences, and fields that are new and null or measured, from a JSON value at any depth."""
    if isinstance(value, dict):
        new = {key for key in ADDED & value.keys() if value[key] is None} | MEASURED
        return {key: without_prose(inner) for key, inner in value.items() if key not in PROSE and key not in new}
    return [without_prose(inner) for inner in value] if isinstance(value, list) else value


def renamed(value: Any) -> Any:
    """Give the settings in a JSON value their current names at any depth."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): renamed(inner) for key, inner in value.items()}
    return [renamed(inner) for inner in value] if isinstance(value, list) else value


def differences(found: Any, wanted: Any, where: str = "", *, exact: bool, more: bool = False) -> Iterator[str]:
    """Yield the places where two JSON values differ; ``more`` allows keys that 0.1.0 did not have."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        missing = wanted.keys() - found.keys()
        extra = set() if more else found.keys() - wanted.keys()
        yield from (f"{where}.{key}: only on one side" for key in sorted(missing | extra))
        for key in sorted(wanted.keys() & found.keys()):
            # Error messages may be reworded, as other prose.
            if key == "message" or (key == "sha256" and not exact):
                continue
            yield from differences(found[key], wanted[key], f"{where}.{key}", exact=exact, more=more)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{where}[{place}]", exact=exact, more=more)
    elif isinstance(wanted, float) and isinstance(found, float):
        same = found == wanted or (math.isnan(found) and math.isnan(wanted))
        if not same and (exact or not math.isclose(found, wanted, **CLOSE)):
            yield f"{where}: {found!r}, was {wanted!r}"
    elif found != wanted:
        yield f"{where}: {found!r}, was {wanted!r}"


# The tests.


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
    return read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A writable copy of the fixtures, which is the current folder."""
    shutil.copytree(FIXTURES, tmp_path / "v0_1_0")
    monkeypatch.chdir(tmp_path / "v0_1_0")
    return tmp_path / "v0_1_0"


def assert_same(found: Any, wanted: Any, expected: Mapping[str, Any], *, more: bool = False) -> None:
    """Fail with the first differences if there are any."""
    exact = rounding() == expected["rounding"] and vectors() == expected["made_with"]["vectors"]
    plain = json.loads(json.dumps(found))
    assert list(differences(plain, wanted, exact=exact, more=more))[:12] == []


@pytest.mark.parametrize("bundle", BUNDLES)
def test_bundles_predict_as_before(folder: Path, expected: dict[str, Any], bundle: str) -> None:
    assert_same(predictions(folder, bundle), renamed(expected["predictions"][bundle]), expected, more=True)


@pytest.mark.parametrize(("bundle", "method"), STREAMED)
def test_stream_diagnoses_as_before(
    folder: Path, expected: dict[str, Any], bundle: str, method: str, tmp_path: Path
) -> None:
    assert_same(
        streamed(folder, bundle, method, tmp_path / "ledger"), expected["streamed"][f"{bundle}/{method}"], expected
    )


@pytest.mark.parametrize("bundle", ["cal", "robust"])
def test_ledgers_can_be_read(folder: Path, expected: dict[str, Any], bundle: str) -> None:
    found = json.loads(command(folder, "ledger", f"ledgers/{bundle}", "--json"))
    assert_same(found, expected["ledgers"][bundle], expected, more=True)
    chosen = json.loads(command(folder, "ledger", f"ledgers/{bundle}", "--where", "verdict == 'wear'", "--json"))
    assert chosen["chosen"] == expected["ledgers_wear"][bundle] > 0


@pytest.mark.parametrize(("model", "profile"), [("cal", "paper"), ("robust", "robust")])
def test_a_stopped_training_resumes_from_its_checkpoint(
    folder: Path, expected: dict[str, Any], model: str, profile: str
) -> None:
    # The refusal of another seed shows that the checkpoint is found and read.
    other = [word if word != "5" else "6" for word in training_arguments(model, f"machine/{profile}.toml")]
    with pytest.raises(BundleError, match="made by another training"):
        command(folder, "train", *other)
    # Later versions log more of an epoch.
    assert_same(resumed(folder, model, f"machine/{profile}.toml"), expected["resumed"][model], expected, more=True)
    assert not (folder / "training" / f"{model}.training").exists()


def test_a_restarted_plant_processes_the_waiting_journal_entries(folder: Path, expected: dict[str, Any]) -> None:
    assert_same(restarted(folder), expected["restarted"], expected)


def test_commands_read_the_store(folder: Path, expected: dict[str, Any]) -> None:
    tokens = json.loads(command(folder, "token", "live/plant", "--json"))
    assert_same(tokens, expected["tokens"], expected, more=True)
    command(folder, "report", "live/plant", "press-1", "--into", "report.html")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("press-1", "wear", "looks like wear", "on my way"))


def test_the_api_accepts_a_token_and_serves_the_store(folder: Path, expected: dict[str, Any]) -> None:
    assert_same(api_responses(folder, expected["secret"]), expected["api_responses"], expected, more=True)


def test_settings_files_are_read_as_before(folder: Path, expected: dict[str, Any]) -> None:
    wanted = renamed(expected["bound"])
    # A machine without a profile has the one that suits its model, which is robust for a calibrated network.
    wanted["service"]["machines"][1]["profile"] = None
    assert_same(bound(folder), wanted, expected, more=True)
