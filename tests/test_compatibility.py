"""What version 0.1.0 wrote is read, and leads to the same results.

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
from cgsa.config import bind
from cgsa.errors import BundleError
from cgsa.service.config import ServiceConfig
from cgsa.service.running import create_service
from cgsa.service.sinks.sinks import SINKS
from cgsa.service.sources import SOURCES, described

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1_0"
BUNDLES = ("cal", "cal_two", "plain", "robust")
PROFILES = {"cal": "machine/paper.toml", "plain": "machine/paper.toml", "robust": "machine/robust.toml"}
"""Of the bundles that recordings are streamed through; the other one has channels of its own."""
EVERYWHERE = (
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
    *(("cal", method) for method in ("cgsa", *EVERYWHERE)),
    *(("robust", method) for method in ("reference", *EVERYWHERE)),
    ("plain", "source"),
)
"""Bundles with the methods that suit them; those that need the training windows cannot stream files."""
MACHINES = ("press-1", "press-2")
RENAMED: Mapping[str, str] = {}
"""Settings that have another name today: names in 0.1.0 with those of today. Files may use either."""
PROSE = frozenset({"note", "text"})
"""Fields whose sentences may be put better; what people wrote is compared where it is read from the store."""
CLOSE = {"rel_tol": 1e-3, "abs_tol": 1e-4}
"""On a machine that rounds in another way."""


# What is said about a fixture: called by these tests, and by make.py to write expected.json.


def rounding() -> str:
    """Return a digest of plain PyTorch arithmetic like that of the package; where it differs, so do last digits."""
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
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimizer.step()
    return digest(*(weight.detach().numpy().tobytes() for weight in weights))


def predictions(folder: Path, bundle: str) -> dict[str, Any]:
    """Return what a bundle says of fixed windows, as probabilities."""
    model = ModelBundle.load(folder / "bundles" / bundle)
    about = model.manifest
    rng = np.random.default_rng(7)
    x = torch.from_numpy(rng.standard_normal((6, len(about.channels), about.window.length)).astype(np.float32))
    method = METHODS["source"](model, {}, seed=0)
    return {"probabilities": method.predict(x).tolist(), "manifest": table(about)}


def streamed(folder: Path, bundle: str, method: str, into: Path) -> dict[str, Any]:
    """Return what ``cgsa stream`` prints of the recording with one method, and the ledger that it writes."""
    words = ["--profile", PROFILES[bundle], "--method", method, "--device", "cpu", "--json", "--ledger", into]
    printed = command(folder, "stream", f"bundles/{bundle}", "recording.parquet", *words)
    events = [without_prose(json.loads(line)) for line in printed.splitlines()]
    whole = method in {"cgsa", "reference"}
    return {
        "events": events if whole else events[-1:],
        "states": [event["state"] for event in events],
        "sha256": digest(json.dumps(events).encode()),
        "ledger": ledger_rows(into),
    }


def ledger_rows(folder: Path) -> dict[str, Any]:
    """Return digests of the columns of a ledger, all parts of it together, with a few values to look at."""
    columns: dict[str, list[Any]] = {}
    for part in sorted(folder.glob("part-*.parquet")):
        for name, values in parquet.read_table(part).to_pydict().items():
            columns.setdefault(name, []).extend(values)
    return {
        name: {"rows": len(values), "last": values[-3:], "sha256": digest(json.dumps(values).encode())}
        for name, values in columns.items()
    }


def resumed(folder: Path, model: str, profile: str) -> dict[str, Any]:
    """Return what a training that was stopped in 0.1.0 ends with; ``cgsa train`` takes up its checkpoint."""
    command(folder, "train", *training_words(model, profile))
    bundle = ModelBundle.load(folder / "training" / model)
    modules = filter(None, (bundle.network, bundle.discriminator, bundle.known))
    tensors = [tensor for module in modules for tensor in module.state_dict().values()]
    return {
        "history": without_prose(bundle.training["history"]),
        "means": [float(tensor.double().abs().mean()) for tensor in tensors],
        "sha256": digest(*(tensor.numpy().tobytes() for tensor in tensors)),
        "calibration": None if bundle.manifest.calibration is None else asdict(bundle.manifest.calibration),
    }


def training_words(model: str, profile: str) -> list[str]:
    """Return the words of the command that was stopped."""
    words = ["machine/scenario.toml", f"training/{model}", "--data", "machine/data", "--profile", profile]
    return [*words, "--seed", "5", "--device", "cpu", "--json"]


def restarted(folder: Path) -> dict[str, Any]:
    """Start the plant again, let it work on what waits in its journals, and return all events and the store."""
    service = create_service(ServiceConfig.load(folder / "live" / "service.toml"))
    events: dict[str, list[Any]] = {machine: [] for machine in MACHINES}

    def note(machine: str, position: int, told: Sequence[Any]) -> None:
        events[machine] += [[position, without_prose(json.loads(event.to_json()))] for event in told]

    service.plant.hear(note)
    with service.plant as plant:
        plant.settle()
    return {"events": events, "store": store_rows(folder / "live" / "plant"), "letters": letters(folder / "live")}


def answers(folder: Path, secret: str) -> dict[str, Any]:
    """Return what the API answers to the holder of a token of 0.1.0, before the service works on anything."""
    service = create_service(ServiceConfig.load(folder / "live" / "service.toml"))

    async def ask() -> dict[str, Any]:
        transport = httpx.ASGITransport(service.server.config.app)
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            found = {path: await client.get(f"/api/{path}") for path in ASKED}
            found["cases, with a wrong token"] = await client.get("/api/cases", headers={"Authorization": "Bearer x"})
        return {path: {"status": answer.status_code, "body": body_of(answer)} for path, answer in found.items()}

    try:
        return asyncio.run(ask())
    finally:
        service.plant.stop()


ASKED = (
    "cases",
    "notes?machine=press-2",
    "diagnoses?machine=press-1&limit=3",
    *(f"machines/{machine}/{what}" for machine in MACHINES for what in ("cases/1", "states")),
    "machines/press-2/ledger?begin=1790000004.0&end=1790000004.1",
)


def body_of(answer: httpx.Response) -> Any:
    return answer.json() if answer.headers["content-type"] == "application/json" else {"sha256": digest(answer.content)}


def store_rows(plant: Path) -> dict[str, Any]:
    """Return the tables of a store, machines one after the other in the order of their streams."""
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


def stored_row(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON has it: without its number, and with a digest in the place of packed samples."""
    del row["id"]
    if table in {"diagnoses", "notes"}:
        row = without_prose(row)
    for name in ("probabilities", "details", "faults", "case", "layout", "channels"):
        if isinstance(row.get(name), str):
            row[name] = json.loads(row[name])
    if "data" in row:
        row["data"] = {"sha256": digest(zlib.decompress(row["data"]))}
    return row


def letters(live: Path) -> list[Any]:
    """Return the letters that wait in the outbox, read from the records of its journal; machines may take turns."""
    head = struct.Struct("<4s12sQIII")
    found = []
    for path in sorted((live / "plant" / "outbox" / "letters").glob("*.journal")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            _, _, _, size, *_ = head.unpack_from(data, place)
            place += head.size
            letter = json.loads(data[place : place + size])
            del letter["noticed"]  # when the service noticed it, by the clock of the computer
            found.append(letter)
            place += size
    return sorted(found, key=lambda letter: (letter["machine"], letter["position"], letter["index"]))


def bound(folder: Path) -> dict[str, Any]:
    """Return the settings files as the package understands them."""
    os.chdir(folder / "settings")
    service = ServiceConfig.load(Path("service.toml"))
    profile = Profile.load("profile.toml")
    methods = {name: bind(METHODS[name].Config, profile.method_settings(name), name) for name in METHODS}
    objectives = {name: bind(OBJECTIVES[name].Config, profile.objective_settings(name), name) for name in OBJECTIVES}
    return {
        "service": table(service),
        "sources": [[name, table(config)] for name, _, config in (described(SOURCES, one) for one in service.sources)],
        "sinks": [[name, table(config)] for name, _, config in (described(SINKS, one) for one in service.sinks)],
        "profile": table(profile),
        "methods": {name: table(config) for name, config in methods.items()},
        "objectives": {name: table(config) for name, config in objectives.items()},
        "profiles": {name: table(Profile.load(name)) for name in ("paper", "quick", "robust")},
        "plan": table(Plan.load("plan.toml")),
        "plan_like": table(Plan.load("plan_like.toml")),
        "scenario": table(Scenario.load("scenario.toml")),
        "scenario_two_conditions": table(Scenario.load("scenario_two_conditions.toml")),
        "live": table(ServiceConfig.load(Path("../live/service.toml"))),
    }


# Helpers of these.


def command(folder: Path, *words: object) -> str:
    """Call a command in a folder, so that paths are the same wherever it is; return what it printed."""
    os.chdir(folder)
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def table(settings: Any) -> Any:
    """Return a dataclass as JSON has it."""
    return json.loads(json.dumps(asdict(settings), default=str))


def without_prose(value: Any) -> Any:
    """Return the value without sentences, at any depth."""
    if isinstance(value, dict):
        return {key: without_prose(inner) for key, inner in value.items() if key not in PROSE}
    return [without_prose(inner) for inner in value] if isinstance(value, list) else value


def renamed(value: Any) -> Any:
    """Return settings of 0.1.0 under their names of today, at any depth."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): renamed(inner) for key, inner in value.items()}
    return [renamed(inner) for inner in value] if isinstance(value, list) else value


def differences(found: Any, wanted: Any, where: str = "", *, exact: bool, more: bool = False) -> Iterator[str]:
    """Yield where two values of JSON differ; ``more`` allows keys that 0.1.0 did not have."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        missing = wanted.keys() - found.keys()
        extra = set() if more else found.keys() - wanted.keys()
        yield from (f"{where}.{key}: only on one side" for key in sorted(missing | extra))
        for key in sorted(wanted.keys() & found.keys()):
            if key == "sha256" and not exact:
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
    """A copy of the fixtures that may be written to, as the current folder."""
    shutil.copytree(FIXTURES, tmp_path / "v0_1_0")
    monkeypatch.chdir(tmp_path / "v0_1_0")
    return tmp_path / "v0_1_0"


def agree(found: Any, wanted: Any, expected: Mapping[str, Any], *, more: bool = False) -> None:
    """Fail with the first differences, if there are any."""
    exact = rounding() == expected["rounding"]
    plain = json.loads(json.dumps(found))
    assert list(differences(plain, wanted, exact=exact, more=more))[:12] == []


@pytest.mark.parametrize("bundle", BUNDLES)
def test_bundles_say_what_they_said(folder: Path, expected: dict[str, Any], bundle: str) -> None:
    agree(predictions(folder, bundle), renamed(expected["predictions"][bundle]), expected, more=True)


@pytest.mark.parametrize(("bundle", "method"), STREAMED)
def test_streams_are_diagnosed_as_they_were(
    folder: Path, expected: dict[str, Any], bundle: str, method: str, tmp_path: Path
) -> None:
    agree(streamed(folder, bundle, method, tmp_path / "ledger"), expected["streamed"][f"{bundle}/{method}"], expected)


@pytest.mark.parametrize("bundle", ["cal", "robust"])
def test_ledgers_are_read(folder: Path, expected: dict[str, Any], bundle: str) -> None:
    found = json.loads(command(folder, "ledger", f"ledgers/{bundle}", "--json"))
    agree(found, expected["ledgers"][bundle], expected)
    chosen = json.loads(command(folder, "ledger", f"ledgers/{bundle}", "--where", "verdict == 'wear'", "--json"))
    assert chosen["chosen"] == expected["ledgers_wear"][bundle] > 0


@pytest.mark.parametrize(("model", "profile"), [("cal", "paper"), ("robust", "robust")])
def test_a_stopped_training_goes_on_from_its_checkpoint(
    folder: Path, expected: dict[str, Any], model: str, profile: str
) -> None:
    # Another seed is refused, so the checkpoint was found and read.
    other = [word if word != "5" else "6" for word in training_words(model, f"machine/{profile}.toml")]
    with pytest.raises(BundleError, match="made by another training"):
        command(folder, "train", *other)
    agree(resumed(folder, model, f"machine/{profile}.toml"), expected["resumed"][model], expected)
    assert not (folder / "training" / f"{model}.training").exists()


def test_a_plant_goes_on_with_what_waits_in_its_journals(folder: Path, expected: dict[str, Any]) -> None:
    agree(restarted(folder), expected["restarted"], expected)


def test_a_store_is_read_by_the_commands(folder: Path, expected: dict[str, Any]) -> None:
    tokens = json.loads(command(folder, "token", "live/plant", "--json"))
    assert tokens == expected["tokens"]
    command(folder, "report", "live/plant", "press-1", "--into", "report.html")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("press-1", "wear", "looks like wear", "on my way"))


def test_a_token_opens_the_api_to_what_is_stored(folder: Path, expected: dict[str, Any]) -> None:
    agree(answers(folder, expected["secret"]), expected["answers"], expected)


def test_settings_files_mean_what_they_meant(folder: Path, expected: dict[str, Any]) -> None:
    agree(bound(folder), renamed(expected["bound"]), expected, more=True)
