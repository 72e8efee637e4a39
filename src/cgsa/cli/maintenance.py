"""``cgsa maintenance``: times in which alarms of some machines notify nobody."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgsa.cli.console import AsJson, print_json, print_table, talk
from cgsa.cli.service_folder import require_package
from cgsa.errors import ConfigError, DataError

if TYPE_CHECKING:
    import httpx

TOKEN = "CGSA_TOKEN"  # noqa: S105 - the name of a variable, not a token
HEADER = ("no.", "machines", "from", "to", "repeats", "by", "reason")


def maintenance_command(
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help="Configuration file of a running service, or its address.")
    ],
    machines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MACHINES", help="Machines or patterns, such as press-*; omit them to list all windows."
        ),
    ] = None,
    hours: Annotated[float, typer.Option(help="Length.")] = 1.0,
    reason: Annotated[str, typer.Option(help="What is being done.")] = "",
    begin: Annotated[
        str | None, typer.Option("--from", help="When it begins, such as 2026-11-20T08:00; by default now.")
    ] = None,
    repeats: Annotated[str, typer.Option(help="[b]once[/b], [b]daily[/b] or [b]weekly[/b].")] = "once",
    zone: Annotated[str, typer.Option(help="Time zone of these times, such as Europe/Berlin.")] = "UTC",
    end: Annotated[int | None, typer.Option(help="End the window of this number now, and for good.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with a token; by default it is in the variable {TOKEN}.")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Plan maintenance, list it, or end it: in these times, alarms are recorded and notify nobody.

    At the end, alarms that are still active and not acknowledged are notified.

    [b]cgsa maintenance plant.toml press-1 --hours 2 --reason "new belt"[/b]

    [b]cgsa maintenance plant.toml "press-*" --from 2026-11-23T06:00 --zone Europe/Berlin --repeats weekly
    --reason "weekly inspection"[/b]
    """
    require_package("httpx")
    import httpx

    with _client(service, token_file) as client:
        try:
            if end is not None:
                found = [_answer(client.post(f"/api/maintenance/{end}/end"))]
            elif machines:
                first = time.time() if begin is None else _time(begin, zone)
                wanted = {
                    "machines": machines,
                    "begin": first,
                    "end": first + 3600 * hours,
                    "reason": reason,
                    "repeats": repeats,
                    "zone": zone,
                }
                found = [_answer(client.post("/api/maintenance", json=wanted))]
            else:
                listed = _answer(client.get("/api/maintenance"))["maintenance"]
                found = [one for one in listed if one["next_end"] is not None]
        except httpx.HTTPError as error:
            raise DataError(f"{client.base_url}: the service does not answer ({error}); is it running?") from error
    if json:
        print_json(found)
    elif end is not None:
        talk.print(f"maintenance {end} is over")
    else:
        print_table(HEADER, [_row(one) for one in found])


def _client(service: str, token_file: Path | None) -> httpx.Client:
    """Return a client of the service, with a token."""
    import httpx

    from cgsa.service.config import ServiceConfig

    try:
        token = os.environ.get(TOKEN, "") if token_file is None else token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{token_file}: the token cannot be read ({error.strerror})") from error
    if not token:
        raise ConfigError(f"no token; set {TOKEN}, or name a file with --token-file")
    url = service if "://" in service else ServiceConfig.load(Path(service)).url
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30.0)


def _answer(response: httpx.Response) -> Any:
    found = response.json()
    if response.is_error:
        raise DataError(found["error"]["message"])
    return found


def _time(text: str, zone: str) -> float:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise ConfigError(
            f"--from {text!r}, --zone {zone!r}; expected a time such as 2026-11-20T08:00 and a zone such as "
            "Europe/Berlin"
        ) from error


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    begin, end = (f"{datetime.fromtimestamp(one[name], UTC):%Y-%m-%d %H:%M} UTC" for name in ("next_begin", "next_end"))
    first = "now" if one["now"] else begin
    return str(one["number"]), ", ".join(one["machines"]), first, end, one["repeats"], one["who"], one["reason"]
