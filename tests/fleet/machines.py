"""Machines of a fleet for tests: their models, their blocks, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from cgsa.fleet.assignments import Assignment, AssignmentTable
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.watch import BLOCK
from tests.live.stream import blocks, signal
from tests.machines import bundle

LEARNS = {"method": {"cgsa": {"tau": 1e9, "min_confidence": 0.34}}, "batch_size": 64}


def model_in(folder: Path, seed: int = 0) -> Path:
    path = folder / f"model-{seed}"
    if not path.exists():
        bundle(seed).save(path)
    return path


def machine_config(name: str, model: Path) -> MachineConfig:
    return MachineConfig(name, str(model), profile="paper", settings={"method": LEARNS["method"]})


def assignment(name: str, model: Path, shard: str = "s1", version: int = 1) -> Assignment:
    return Assignment(machine_config(name, model), shard, version)


def table(*assignments: Assignment, shards: tuple[str, ...] = ("s1",)) -> AssignmentTable:
    return AssignmentTable(max(one.version for one in assignments), assignments, shards)


def blocks_of(machine: str, seconds: float = 6.0, seed: int = 0) -> list[Block]:
    return [replace(block, machine=machine) for block in blocks(signal(seconds, seed=seed))]


def publish(log: ReplayableLog, sent: Iterable[Block], kind: str = BLOCK) -> list[int]:
    return [log.append(one.machine, kind, one.to_bytes(), key=f"{one.sequence}") for one in sent]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come about"
        time.sleep(0.01)


def same_tensors(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n].nan_to_num(), other[n].nan_to_num()) for n in one)
