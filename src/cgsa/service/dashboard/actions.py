"""Commands on pages: dialogs to enter them, and the way to send them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nicegui import ui

from cgsa.errors import CgsaError
from cgsa.live.commands import Name
from cgsa.service.commands import COMMAND_ROLES, send_audited
from cgsa.service.dashboard.page_session import PageSession


@dataclass(frozen=True)
class DialogAnswer:
    """What a person entered in a dialog."""

    text: str = ""
    chosen: tuple[str, ...] = ()
    """One value for each list."""
    fields: tuple[str, ...] = ()
    """One text for each further field."""


def may_send(session: PageSession, name: Name) -> bool:
    """Return whether a page should offer a command at all."""
    return session.person.may(COMMAND_ROLES[name])


async def send(
    session: PageSession, machine: str, name: Name, text: str = "", *, case: int | None = None, **details: object
) -> bool:
    """Send a command for the person who sees the page, and show its result; return whether it was accepted.

    ``case`` is the number of the case that the page showed when the person chose the command.
    """
    try:
        done = await send_audited(session.context, session.request, machine, name, text, case=case, **details)
    except CgsaError as error:
        ui.notify(str(error), type="negative", multi_line=True, close_button="OK", timeout=0)
        return False
    if done:
        ui.notify("Done", type="positive")
    else:
        ui.notify("Accepted; carried out once the signal waiting before it is processed", type="warning")
    return True


async def ask(
    title: str,
    explanation: str = "",
    *,
    confirm: str,
    text: str | None = None,
    required: bool = False,
    lists: Sequence[tuple[str, Sequence[str]]] = (),
    fields: Sequence[tuple[str, str]] = (),
    destructive: bool = False,
) -> DialogAnswer | None:
    """Show a dialog and return what was entered; None if the person cancelled it.

    Parameters
    ----------
    confirm
        Text of the button that confirms.
    text
        Name of a text field; None for a dialog without one.
    required
        Whether the text must not be empty.
    lists
        Names of lists and their choices; the first choice is preselected.
    fields
        Names of further text fields, which come first, with a hint for each.
    destructive
        Whether the command discards something.
    """
    with ui.dialog() as dialog, ui.card().classes("stack").style("min-width: min(420px, 92vw)"):
        ui.label(title).style("font-size: 17px; font-weight: 600")
        if explanation:
            ui.label(explanation).classes("muted")
        entries = [
            ui.input(name, placeholder=hint).props("maxlength=1000 stack-label").style("width: 100%")
            for name, hint in fields
        ]
        chosen = [ui.select(list(items), value=items[0], label=name).style("width: 100%") for name, items in lists]
        field = None if text is None else ui.input(text).props("autofocus maxlength=1000").style("width: 100%")

        def confirm_answer() -> None:
            entered = field.value.strip() if field is not None else ""
            if field is not None and required and not entered:
                field.props('error error-message="a text is required"')
                return
            texts = tuple(str(one.value or "").strip() for one in entries)
            dialog.submit(DialogAnswer(entered, tuple(str(one.value) for one in chosen), texts))

        if field is not None:
            field.on("keydown.enter", confirm_answer)
        with ui.element("div").classes("line").style("justify-content: flex-end; width: 100%"):
            ui.button("Cancel", color=None, on_click=dialog.close).props("flat").classes("act bare")
            colour = "negative" if destructive else "primary"
            ui.button(confirm, on_click=confirm_answer, color=colour).props("unelevated")
    answer = await dialog
    dialog.delete()
    return answer if isinstance(answer, DialogAnswer) else None
