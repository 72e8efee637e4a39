"""What people may do on a page: asked for, checked again on the server, carried out, and written down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nicegui import ui

from cgsa.errors import CgsaError
from cgsa.live.commands import Command, Name
from cgsa.service.auth import Role
from cgsa.service.dashboard.page_session import PageSession

NEEDS: Mapping[Name, Role] = {
    "acknowledge": "operator",
    "shelve": "operator",
    "unshelve": "operator",
    "close": "operator",
    "comment": "operator",
    "label": "operator",
    "freeze": "operator",
    "thaw": "operator",
    "reset": "admin",
    "roll_back": "admin",
}
"""Who may give which command; all others are the service's own."""
PATIENCE = 15.0
"""Seconds that a page waits for a command to be carried out."""


@dataclass(frozen=True)
class DialogAnswer:
    """What somebody said in a dialog."""

    text: str = ""
    chosen: tuple[str, ...] = ()
    """One for each list that was shown."""


def may(visit: PageSession, name: Name) -> bool:
    """Return whether a page should offer a command at all."""
    return visit.person.may(NEEDS[name])


async def act(visit: PageSession, machine: str, name: Name, text: str = "", **details: object) -> bool:
    """Give a command in the name of whoever looks at the page, and tell them what came of it."""
    try:
        told = await carry_out(visit, machine, name, text, **details)
    except CgsaError as error:
        ui.notify(str(error), type="negative", multi_line=True, close_button="OK", timeout=0)
        return False
    ui.notify(told, type="positive" if told == "Done" else "warning")
    return True


async def carry_out(visit: PageSession, machine: str, name: Name, text: str = "", **details: object) -> str:
    """Give a command if the person still may, and write it down, refused ones too; return what to say of it."""
    guard, request = visit.hall.guard, visit.request
    person = await asyncio.to_thread(guard.person_of, request)
    result, told = "ok", "Done"
    try:
        allowed = guard.require(person, NEEDS[name])
        worker = visit.hall.plant.worker(machine)
        done = await asyncio.to_thread(worker.command, Command(name, allowed.name, text, details))
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), PATIENCE)
        except TimeoutError:
            result = told = "Written down; it is carried out when the signal that waits before it is worked on"
    except CgsaError as error:
        result = f"refused: {error}"
        raise
    finally:
        await asyncio.to_thread(
            guard.audit, person, name.replace("_", " "), machine, request, result, text=text, **details
        )
    return told


async def ask(
    title: str,
    explanation: str = "",
    *,
    confirm: str,
    text: str | None = None,
    text_needed: bool = False,
    lists: Sequence[tuple[str, Sequence[str]]] = (),
    grave: bool = False,
) -> DialogAnswer | None:
    """Show a dialog and return what was answered; none where the person thought better of it.

    Parameters
    ----------
    title, explanation
        What it is about.
    confirm
        What the button says that goes on.
    text
        Name of a field for a few words; none without one.
    text_needed
        Whether something must be said.
    lists
        Names of lists and what can be chosen in them; the first is chosen already.
    grave
        Whether it takes something away.
    """
    with ui.dialog() as dialog, ui.card().classes("stack").style("min-width: min(420px, 92vw)"):
        ui.label(title).style("font-size: 17px; font-weight: 600")
        if explanation:
            ui.label(explanation).classes("muted")
        chosen = [ui.select(list(choices), value=choices[0], label=name) for name, choices in lists]
        for one in chosen:
            one.style("width: 100%")
        said = None
        if text is not None:
            said = ui.input(text).props("autofocus maxlength=1000").style("width: 100%")

        def go_on() -> None:
            words = said.value.strip() if said is not None else ""
            if said is not None and text_needed and not words:
                said.props('error error-message="a few words are needed"')
                return
            dialog.submit(DialogAnswer(words, tuple(str(one.value) for one in chosen)))

        if said is not None:
            said.on("keydown.enter", go_on)
        with ui.element("div").classes("line").style("justify-content: flex-end; width: 100%"):
            ui.button("Cancel", color=None, on_click=dialog.close).props("flat").classes("act bare")
            ui.button(confirm, on_click=go_on, color="negative" if grave else "primary").props("unelevated")
    answer = await dialog
    dialog.delete()
    return answer if isinstance(answer, DialogAnswer) else None
