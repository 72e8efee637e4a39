"""The tables of a comparison of two models as text cells, for terminals and pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from cgsa.config import as_table
from cgsa.evaluation.model_comparison import ComparedStream, ModelComparison, ModelRun, SideFigures
from cgsa.report.card_tables import CardTable

MAX_DISAGREEMENTS = 40
"""The longest disagreements that are listed."""
COMPARISON_NOTE = (
    "Verdicts join windows over time. Before every fault, the machine is watched healthy, and known to be; only the "
    "fault is judged. Delays run from the onset of the fault to the alarm."
)


def comparison_sentences(found: ModelComparison) -> list[str]:
    """Return the result in sentences, what counts first."""
    sentences = []
    if found.labelled:
        fresh = found.new_to_both
        old, new = (SideFigures.over(fresh or found.streams, side) for side in ("old", "new"))
        where = f"the {len(fresh)} recordings new to both models" if fresh else "recordings that a model was trained on"
        sentences.append(
            f"On {where}, {_share(new.right)} of the verdicts of {found.new} are right, and {_share(old.right)} of "
            f"those of {found.old}."
        )
    share = found.differing_share
    sentences.append(f"Their verdicts differ in {100 * share:.3g} % of the time." if share else "Their verdicts agree.")
    trained = {name: _trained(found, name) for name in ("old", "new")}
    if any(trained.values()):
        sentences.append(
            f"{found.new} was trained on {trained['new']} of the {len(found.streams)} recordings, {found.old} on "
            f"{trained['old']}: of these, the figures say little."
        )
    return sentences


def side_tables(found: ModelComparison) -> list[CardTable]:
    """Return the figures of both models: on recordings new to both, and on all of them."""
    fresh = found.new_to_both
    if not found.labelled:
        return []
    tables = [_side_table("New to both models", fresh, found)] if fresh else []
    if len(fresh) < len(found.streams):
        tables.append(_side_table("All recordings", found.streams, found))
    return tables


def compared_stream_table(found: ModelComparison) -> CardTable:
    """Return one row per recording."""
    header = ("recording", "class", "verdicts", "alarm after", "differ", "trained on")
    return CardTable(f"Recordings: {found.old} / {found.new}", header, tuple(map(_stream_cells, found.streams)))


def disagreement_table(found: ModelComparison) -> CardTable:
    """Return the longest disagreements, by recording and time."""
    every = [(one, difference) for one in found.streams for difference in one.disagreements]
    longest = sorted(every, key=lambda pair: pair[1].begin - pair[1].end)[:MAX_DISAGREEMENTS]
    rows = [
        (_short(one.name), f"{each.begin:.1f} s", f"{each.end:.1f} s", each.old, each.new)
        for one, each in every
        if (one, each) in longest
    ]
    title = "Where the verdicts differ" if len(every) == len(rows) else f"The {len(rows)} longest differences"
    return CardTable(title, ("recording", "from", "to", found.old, found.new), tuple(rows))


def comparison_values(found: ModelComparison) -> dict[str, object]:
    """Return the same for programs."""
    groups = {"new_to_both": found.new_to_both, "all": found.streams}
    return {
        "old": found.old,
        "new": found.new,
        "data": found.data,
        "differing_share": found.differing_share,
        "figures": {
            name: {side: as_table(SideFigures.over(streams, side)) for side in ("old", "new")}
            for name, streams in groups.items()
            if found.labelled
        },
        "streams": [
            {**as_table(one), "disagreements": [as_table(each) for each in one.disagreements]} for one in found.streams
        ],
    }


def _side_table(title: str, streams: Sequence[ComparedStream], found: ModelComparison) -> CardTable:
    sides = [SideFigures.over(streams, side) for side in ("old", "new")]
    rows = [
        ("verdicts right", *(_share(one.right) for one in sides)),
        ("faults with an alarm", *(f"{one.alarms} of {one.faults}" for one in sides)),
        ("alarms that name the fault", *(f"{one.named} of {one.faults}" for one in sides)),
        ("median delay", *("" if one.delay is None else f"{one.delay:.2g} s" for one in sides)),
        ("false alarms", *(f"{one.false_alarms} in {one.healthy_seconds:.4g} s" for one in sides)),
    ]
    return CardTable(f"{title}: {len(streams)}", ("", found.old, found.new), tuple(rows))


def _stream_cells(one: ComparedStream) -> tuple[str, ...]:
    return (
        _short(one.name),
        one.truth or "",
        f"{_share(one.old.right)} / {_share(one.new.right)}" if one.truth else "",
        f"{_alarm(one, one.old)} / {_alarm(one, one.new)}",
        f"{one.differing_seconds:.1f} of {one.seconds:.1f} s",
        ", ".join(side for side, run in (("old", one.old), ("new", one.new)) if run.trained),
    )


def _alarm(one: ComparedStream, run: ModelRun) -> str:
    if one.truth is None:
        return "-" if not run.alarms else f"{run.alarms[0].begin:.2g} s {run.alarms[0].state}"
    if one.healthy:
        return f"{run.false_alarms} false" if run.false_alarms else "-"
    return "-" if run.delay is None else f"{run.delay:.2g} s"


def _trained(found: ModelComparison, side: str) -> int:
    return sum((one.old if side == "old" else one.new).trained for one in found.streams)


def _short(name: str) -> str:
    return PurePosixPath(name).stem


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
