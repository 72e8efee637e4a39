"""Learning: freeze it, let it go on, and go back to an earlier state."""

from __future__ import annotations

from threading import Lock
from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from cgsa.live.worker import Worker
from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.api.parameters import LATER, Gives, MachineName, StateNumber
from cgsa.service.comparison import differences
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import Differences, Done, Said, States

router = guarded_router()

_OPERATOR = needs("operator", 404, 409, 503, answers={202: LATER})
_ADMIN = needs("admin", 404, 409, 503, answers={202: LATER})

_one_at_a_time = Lock()
"""A state may take hundreds of megabytes; two of them at a time are enough."""


@router.get("/machines/{machine}/states", tags=["learning"], **needs("viewer", 404, 409, 503))
def list_states(machine: MachineName, parts: TheParts) -> States:
    """Return the states that can be gone back to, the oldest first."""
    return States.model_validate({"states": parts.worker(machine).states()})


@router.get("/machines/{machine}/states/{state}/differences", tags=["learning"], **needs("viewer", 404, 409, 503))
def compare_states(
    machine: MachineName, state: StateNumber, to: Annotated[int, Query(ge=1, lt=2**31)], parts: TheParts
) -> Differences:
    """Return what differs between a state and another one, tensor by tensor."""
    worker = parts.worker(machine)
    _check_there(worker, state, to)
    with _one_at_a_time:
        before, after = worker.state(state), worker.state(to)
        found = differences(before.tensors, after.tensors)
        total = len(before.tensors.keys() | after.tensors.keys())
    return Differences.model_validate({"before": state, "after": to, "tensors": total, "differences": found})


@router.post(
    "/machines/{machine}/states/{state}/roll-back",
    tags=["learning"],
    **_ADMIN,
)
async def roll_back(machine: MachineName, state: StateNumber, said: Said, parts: TheParts, giver: Gives) -> Done:
    """Go back to the model of an earlier state; alarms stay as they are."""
    await run_in_threadpool(_check_there, parts.worker(machine), state)
    return await giver.give(machine, "roll_back", said.text, state=state)


@router.post("/machines/{machine}/learning/freeze", tags=["learning"], **_OPERATOR)
async def freeze(machine: MachineName, said: Said, giver: Gives) -> Done:
    """Diagnose on, and learn nothing more."""
    return await giver.give(machine, "freeze", said.text)


@router.post("/machines/{machine}/learning/thaw", tags=["learning"], **_OPERATOR)
async def thaw(machine: MachineName, said: Said, giver: Gives) -> Done:
    """Let learning go on."""
    return await giver.give(machine, "thaw", said.text)


@router.post("/machines/{machine}/learning/reset", tags=["learning"], **_ADMIN)
async def reset(machine: MachineName, said: Said, giver: Gives) -> Done:
    """Go back to the model as it was trained; the machine is taken for healthy now."""
    return await giver.give(machine, "reset", said.text)


def _check_there(worker: Worker, *numbers: int) -> None:
    """Refuse numbers of which there is no state."""
    there = {saved.number for saved in worker.states()}
    for number in numbers:
        if number not in there:
            raise RefusedError(404, f"{worker.machine} has no state {number}")
