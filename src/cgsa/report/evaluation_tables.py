"""The tables of an evaluation as text cells, for terminals and pages."""

from __future__ import annotations

from pathlib import PurePosixPath

from cgsa.evaluation.results import NEW, Evaluation, StreamGroup, StreamResult
from cgsa.report.card_tables import CardTable, part_row

SMALL_PRINT = (
    "Healthy and faulty windows count half each, and every fault the same. Verdicts join windows over time. Every "
    "healthy recording is watched alone; before every fault, the machine is watched healthy, and known to be. Delays "
    "run from the onset of the fault to the alarm."
)
ALL_TRAINED = (
    "The model was trained on all of these recordings, so that this says little about others; evaluate it on new "
    "recordings, or with --leave-out."
)


def headline(found: Evaluation) -> list[str]:
    """Return the result in sentences, what counts first."""
    return [*(_sentence(group, found) for group in found.groups), *_warnings(found)]


def overall_table(found: Evaluation) -> CardTable:
    """Return one column of figures per group of recordings."""
    groups = found.groups
    rows = [
        ("recordings", *(f"{len(group.streams)}" for group in groups)),
        ("windows right", *(_share(group.accuracy) for group in groups)),
        ("verdicts right", *(_share(group.verdict_accuracy) for group in groups)),
        ("faults with an alarm", *(f"{group.alarms} of {len(group.faults)}" for group in groups)),
        ("alarms that name the fault", *(f"{group.named_alarms} of {len(group.faults)}" for group in groups)),
        ("median delay", *("" if group.delay is None else f"{group.delay:.2g} s" for group in groups)),
        ("false alarms", *(_false_alarms(group) for group in groups)),
        ("calibration error", *(_share(group.reliability.calibration_error) for group in groups)),
    ]
    return CardTable("Results", ("", *(_name(group, found) for group in groups)), tuple(rows))


def point_table(group: StreamGroup, name: str) -> CardTable:
    """Return one row per operating condition."""
    rows = tuple(part_row(one.as_part()) for one in group.by_point())
    return CardTable(
        f"By operating condition: {name}", ("condition", "verdicts", "windows", "alarms", "false alarms"), rows
    )


def truth_table(group: StreamGroup, found: Evaluation, name: str) -> CardTable:
    """Return one row per class, with the states that its windows were decided to be in."""
    rows = []
    for one in group.by_class():
        counts = [sum(column) for column in zip(*(stream.verdicts for stream in one.streams), strict=True)]
        shares = [f"{count / sum(counts):.2f}" if count else "" for count in counts]
        rows.append((one.name, str(len(one.streams)), _share(one.accuracy), *shares))
    header = ("class", "recordings", "windows", *found.states)
    return CardTable(f"Verdicts by class, as shares: {name}", header, tuple(rows))


def stream_table(group: StreamGroup, name: str) -> CardTable:
    """Return one row per recording."""
    header = ("recording", "condition", "class", "verdicts", "windows", "alarm", "delay", "false alarms")
    return CardTable(f"Recordings: {name}", header, tuple(map(_stream_row, group.streams)))


def group_name(group: StreamGroup, found: Evaluation) -> str:
    """Return what a group of recordings is, in words."""
    if found.left_out:
        return "by models that were trained without them"
    return f"recordings that the model was {group.name}"


def _name(group: StreamGroup, found: Evaluation) -> str:
    return "left out in turn" if found.left_out else group.name


def _sentence(group: StreamGroup, found: Evaluation) -> str:
    what = "Where they were left out of training in turn" if found.left_out else f"Recordings {group.name}"
    verdicts = _share(group.verdict_accuracy)
    alarms = f", {group.alarms} of {len(group.faults)} faults raised an alarm" if group.faults else ""
    hours = group.healthy_hours
    false = f", {_false_alarms(group)} on the healthy machine" if hours else ""
    return f"{what}: {verdicts} of the verdicts were right{alarms}{false}."


def _warnings(found: Evaluation) -> list[str]:
    names = [group.name for group in found.groups]
    if NEW in names and len(names) == 1:
        return []
    if NEW not in names:
        return [ALL_TRAINED]
    return ["What the model was trained on says little; only the other recordings tell how good it is."]


def _stream_row(one: StreamResult) -> tuple[str, ...]:
    return (
        PurePosixPath(one.recording).stem,
        one.point,
        one.truth,
        f"{one.verdict_accuracy:.3f}",
        f"{one.accuracy:.3f}",
        one.alarm or "",
        "" if one.delay is None else f"{one.delay:.2g} s",
        str(one.false_alarms) if one.healthy else "",
    )


def _false_alarms(group: StreamGroup) -> str:
    rate = group.false_alarms_per_hour
    if rate is None:
        return ""
    seconds = group.healthy_hours * 3600
    count = f"{group.false_alarms} false alarm{'' if group.false_alarms == 1 else 's'} in {seconds:.4g} s"
    return f"{count} ({rate:.3g} per hour)" if group.false_alarms else count


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
