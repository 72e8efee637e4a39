"""Commissioning: answer its question, repeat it, take a reference from the history or take it back."""

from __future__ import annotations

from cgsa.service.api.parameters import Commands, MachineName, command_settings
from cgsa.service.api.routing import role_router
from cgsa.service.schemas import CommandResult, CommissionForm, ReferenceForm, RemarkForm

router = role_router()


@router.post(
    "/machines/{machine}/commissioning/confirm-healthy", tags=["commissioning"], **command_settings("confirm_healthy")
)
async def confirm_healthy(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Answer that the machine is healthy: its reference is taken from the observed start, or from the next one."""
    return await commands.send(machine, "confirm_healthy", said.text)


@router.post("/machines/{machine}/commissioning/mark-faulty", tags=["commissioning"], **command_settings("mark_faulty"))
async def mark_faulty(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Answer that the machine is faulty: it gets no reference, and the verdicts of the model as trained stand."""
    return await commands.send(machine, "mark_faulty", said.text)


@router.post("/machines/{machine}/commissioning/repeat", tags=["commissioning"], **command_settings("commission"))
async def repeat_commissioning(machine: MachineName, said: CommissionForm, commands: Commands) -> CommandResult:
    """Discard the reference and observe a new start, such as after a repair."""
    return await commands.send(machine, "commission", said.text, healthy=said.healthy)


@router.post(
    "/machines/{machine}/commissioning/take-reference", tags=["commissioning"], **command_settings("take_reference")
)
async def take_reference(machine: MachineName, said: ReferenceForm, commands: Commands) -> CommandResult:
    """Take the reference from an interval of the recent history in which the machine was healthy."""
    return await commands.send(machine, "take_reference", said.text, begin=said.begin, end=said.end)


@router.post(
    "/machines/{machine}/commissioning/withdraw-reference",
    tags=["commissioning"],
    **command_settings("withdraw_reference"),
)
async def withdraw_reference(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Take the reference back: the verdicts of the model as trained stand."""
    return await commands.send(machine, "withdraw_reference", said.text)
