"""One model for many machines: a new bundle goes to a few of them first, and then to all, or back.

1. ``shadow``: on each machine that is chosen, the new model runs beside the old one. It reads the same records, from a
   position in the log that is part of the table, and its results have a name of their own. What it finds depends on the
   log alone, as with any machine.
2. ``canary``: on these machines the new model is in charge, and the old one runs beside it.
3. All machines have the new model, and nothing runs beside it; or, at any time before, all have the old one.

The functions return the next table; whoever has the controller applies it. A machine whose model changes continues with
the first record that its old model has not processed, without what that one has learnt; cases and history stay.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cgsa.errors import ConfigError, DataError
from cgsa.fleet.assignments import Assignment, AssignmentTable, Rollout
from cgsa.live.plant import MachineConfig


def start_rollout(
    table: AssignmentTable, new: str, share: float, ends: Mapping[str, int], *, old: str | None = None
) -> AssignmentTable:
    """Run a new bundle in shadow on a share of the machines that have the old one.

    ``ends`` has the ends of the machines' logs, at which the shadows begin. ``old`` may be left out if all machines
    have the same bundle.
    """
    if table.rollout is not None:
        raise DataError(f"{table.rollout.new} is being rolled out; expected to promote it or to take it back first")
    if not 0 < share <= 1:
        raise ConfigError(f"a share of {share:g} of the machines; expected more than 0 and at most 1")
    bundles = sorted({str(one.machine.bundle) for one in table.assignments})
    if old is None and len(bundles) != 1:
        raise ConfigError(f"machines have the bundles {', '.join(bundles) or 'none'}; expected one that is replaced")
    replaced = old or bundles[0]
    if replaced not in bundles or new == replaced:
        raise ConfigError(f"bundle {replaced}; expected one of {', '.join(bundles)}, other than the new one")
    having = [one.machine.name for one in table.assignments if str(one.machine.bundle) == replaced]
    # The same machines for the same roll-out, spread over whatever the names stand for.
    order = sorted(having, key=lambda name: hashlib.sha256(f"{new} {name}".encode()).digest())
    chosen = tuple(sorted(order[: math.ceil(share * len(order))]))
    rollout = Rollout(str(replaced), new, "shadow", chosen)
    return _with_shadows(replace(table, rollout=rollout), new, ends)


def promote(table: AssignmentTable, ends: Mapping[str, int]) -> AssignmentTable:
    """Put the new model in charge of the chosen machines; if it is there already, of all that have the old one."""
    rollout = _running(table)
    if rollout.stage == "shadow":
        swapped = _with_bundles(_without_shadows(table), rollout.machines, rollout.new)
        return _with_shadows(replace(swapped, rollout=replace(rollout, stage="canary")), rollout.old, ends)
    rest = [one.machine.name for one in table.assignments if str(one.machine.bundle) == rollout.old]
    known = {old: rollout.new if new == rollout.old else new for old, new in table.replaced.items()}
    known = {old: new for old, new in {**known, rollout.old: rollout.new}.items() if old != rollout.new}
    return replace(_with_bundles(_without_shadows(table), rest, rollout.new), rollout=None, replaced=known)


def take_back(table: AssignmentTable) -> AssignmentTable:
    """Put the old model in charge of all machines again, and end the shadows."""
    rollout = _running(table)
    return replace(_with_bundles(_without_shadows(table), rollout.machines, rollout.old), rollout=None)


def current_config(table: AssignmentTable, machine: MachineConfig) -> MachineConfig:
    """Return the settings of a machine with the bundle that it has by now instead of one that was replaced.

    A file of settings may name the old bundle for some time, and is read again whenever a fleet starts.
    """
    bundle, rollout = str(machine.bundle), table.rollout
    bundle = table.replaced.get(bundle, bundle)
    if rollout is not None and rollout.stage == "canary" and bundle == rollout.old and machine.name in rollout.machines:
        bundle = rollout.new
    return machine if bundle == str(machine.bundle) else replace(machine, bundle=bundle)


def shadow_pairs(table: AssignmentTable) -> dict[str, str]:
    """Return the shadow of each machine that has one."""
    return {one.log: one.machine.name for one in table.assignments if one.log}


def _running(table: AssignmentTable) -> Rollout:
    if table.rollout is None:
        raise DataError("no bundle is being rolled out")
    return table.rollout


def _with_shadows(table: AssignmentTable, bundle: str, ends: Mapping[str, int]) -> AssignmentTable:
    """Let a bundle run in shadow on the machines of the roll-out, and keep the records that it reads."""
    rollout, number = _running(table), table.version + 1
    changed = []
    for one in table.assignments:
        if one.machine.name not in rollout.machines:
            changed.append(one)
            continue
        begin = ends[one.machine.name]
        # Numbered, so that a later roll-out has nothing to do with the states and results of this one.
        shadow = replace(one.machine, name=f"{one.machine.name}.shadow-{number}", bundle=bundle)
        changed.append(replace(one, keep_from=begin))
        changed.append(Assignment(shadow, "", -1, log=one.machine.name, begin=begin))
    return replace(table, assignments=tuple(changed))


def _without_shadows(table: AssignmentTable) -> AssignmentTable:
    return replace(table, assignments=tuple(replace(one, keep_from=None) for one in table.assignments if not one.log))


def _with_bundles(table: AssignmentTable, machines: Iterable[str], bundle: str) -> AssignmentTable:
    names = set(machines)
    changed = tuple(
        replace(one, machine=replace(one.machine, bundle=bundle)) if one.machine.name in names else one
        for one in table.assignments
    )
    return replace(table, assignments=changed)
