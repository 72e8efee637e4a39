"""The sender of a machine's blocks: admit it anew."""

from __future__ import annotations

from cgsa.service.api.parameters import Commands, MachineName, command_settings
from cgsa.service.api.routing import role_router
from cgsa.service.schemas import CommandResult, RemarkForm

router = role_router()


@router.post("/machines/{machine}/sender/readmit", tags=["blocks"], **command_settings("readmit"))
async def readmit(machine: MachineName, said: RemarkForm, commands: Commands) -> CommandResult:
    """Admit the sender anew: the next block may have any number and any time, such as after a clock was corrected."""
    return await commands.send(machine, "readmit", said.text)
