"""``cgsa fleet --rollout``: start a roll-out, and show how the two models compare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.cli.console import out, print_json, print_table
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.fleet.assignments import Rollout
    from cgsa.fleet.cluster import Fleet
    from cgsa.fleet.rollout_summary import ModelRecord, RolloutSummary

HEADER = ("machine", "model", "in charge", "signal, s", "estimated accuracy", "alarm", "faulty", "states differ")
SENSORS = ("classes", "channels", "units", "sample_rate")
"""What two models must share so that one can replace the other."""


def roll_out(
    fleet: Fleet,
    bundle: Path | None,
    share: float,
    replaces: Path | None,
    *,
    promote: bool,
    take_back: bool,
    as_json: bool,
) -> None:
    """Start a roll-out, go on with it or end it, and show how the models compare."""
    if (bundle is not None) + promote + take_back > 1:
        raise ConfigError("--rollout, --promote and --take-back; expected one of them")
    if bundle is not None:
        _start_rollout(fleet, bundle, share, replaces)
    if promote:
        fleet.promote()
    if take_back:
        fleet.take_back()
    _show_rollout(fleet.table().rollout, fleet.compare(), as_json=as_json)


def _start_rollout(fleet: Fleet, bundle: Path, share: float, replaces: Path | None) -> None:
    """Start a roll-out of a bundle that fits the machines."""
    from cgsa.nn.bundle import ModelBundle

    new, old = ModelBundle.load(bundle), None if replaces is None else str(replaces.resolve())
    known = {str(one.machine.bundle) for one in fleet.table().assignments}
    for path in sorted(known if old is None else {old} & known):
        present = ModelBundle.load(path).manifest
        different = [name for name in SENSORS if getattr(new.manifest, name) != getattr(present, name)]
        if different:
            raise ConfigError(
                f"{bundle}: other {', '.join(different)} than {path}; expected a model of the same signal"
            )
    fleet.start_rollout(str(bundle.resolve()), share, old=old)


def _show_rollout(rollout: Rollout | None, summary: RolloutSummary, *, as_json: bool) -> None:
    """Print the stage of a roll-out and the comparison."""
    if as_json:
        found = {"common_seconds": summary.common_seconds, "disagreement": summary.disagreement}
        print_json({"rollout": None if rollout is None else asdict(rollout), **found, **asdict(summary)})
        return
    if rollout is None:
        out.print("no bundle is being rolled out")
        return
    models = (rollout.old, rollout.new) if rollout.stage == "shadow" else (rollout.new, rollout.old)
    rows = []
    for one in summary.machines:
        rows.append((one.machine, models[0], "yes", *_row(one.in_charge), _percent(one.disagreement)))
        rows.append(("", models[1], "", *_row(one.shadow), ""))
    print_table(HEADER, rows)
    out.print(
        f"stage {rollout.stage}: on {len(rollout.machines)} machines, over {summary.common_seconds:.0f} s, "
        f"the states of the two models differ for {_percent(summary.disagreement)}"
    )


def _row(record: ModelRecord) -> tuple[str, ...]:
    shares = (record.accuracy, record.alarm_share, record.faulty_share)
    return (f"{record.seconds:.0f}", *(_percent(one if record.seconds else None) for one in shares))


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"
