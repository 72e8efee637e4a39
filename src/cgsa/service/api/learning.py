"""Learning: freeze and thaw it, and roll back to an earlier state."""

from __future__ import annotations

from threading import Lock
from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from cgsa.live.monitored import MonitoredMachine
from cgsa.service.api.parameters import Commands, MachineName, MachineWorker, StateNumber, command_settings
from cgsa.service.api.routing import needs, role_router
from cgsa.service.comparison import differences
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import CommandResult, RemarkForm, StateDifferences, States

router = role_router()

_comparing = Lock()
"""A state may take hundreds of megabytes, so only one comparison runs at a time."""


@router.get("/machines/{machine}/states", tags=["learning"], **needs("viewer", 404, 409, scope="path"))
def list_states(worker: MachineWorker) -> States:
    """Return the states that the machine can be rolled back to, oldest first."""
    return States.model_validate({"states": worker.states()})


@router.get(
    "/machines/{machine}/states/{state}/differences", tags=["learning"], **needs("viewer", 404, 409, scope="path")
)
def compare_states(
    worker: MachineWorker, state: StateNumber, to: Annotated[int, Query(ge=1, lt=2**31)]
) -> StateDifferences:
    """Return the differences between two states, tensor by tensor."""
    _check_exist(worker, state, to)
    with _comparing:
        before, after = worker.state(state), worker.state(to)
        found = differences(before.tensors, after.tensors)
        total = len(before.tensors.keys() | after.tensors.keys())
    return StateDifferences.model_validate({"before": state, "after": to, "tensors": total, "differences": found})


@router.post("/machines/{machine}/states/{state}/roll-back", tags=["learning"], **command_settings("roll_back"))
async def roll_back(worker: MachineWorker, state: StateNumber, said: RemarkForm, commands: Commands) -> CommandResult:
    """Roll back to the model of an earlier state; alarms stay as they are."""
    await run_in_threadpool(_check_exist, worker, state)
    return await commands.send(worker.machine, "roll_back", said.text, state=state)


@router.post("/machines/{machine}/learning/freeze", tags=["learning"], **command_settings("freeze"))
async def freeze(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Freeze learning; diagnosis continues."""
    return await commands.send(machine, "freeze", said.text)


@router.post("/machines/{machine}/learning/thaw", tags=["learning"], **command_settings("thaw"))
async def thaw(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Resume learning."""
    return await commands.send(machine, "thaw", said.text)


@router.post("/machines/{machine}/learning/reset", tags=["learning"], **command_settings("reset"))
async def reset(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Reset to the model as trained; the machine is assumed to be healthy now."""
    return await commands.send(machine, "reset", said.text)


def _check_exist(worker: MonitoredMachine, *numbers: int) -> None:
    """Refuse numbers of states that do not exist."""
    existing = {saved.number for saved in worker.states()}
    for number in numbers:
        if number not in existing:
            raise RefusedError(404, f"{worker.machine} has no state {number}")
