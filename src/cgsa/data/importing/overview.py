"""What an import has found, for people: how much of what, and what is odd about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cgsa.data.dataset import DataSet
from cgsa.data.importing.progress import ImportedRecording
from cgsa.data.importing.write import ImportResult

SHORT = 0.5
"""A recording shorter than this share of the usual length is odd."""


@dataclass(frozen=True)
class ImportOverview:
    """The contents of a data set, and what a person should know about them."""

    facts: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    points: tuple[tuple[str, tuple[int, ...]], ...]
    """Every operating condition with the number of recordings of each class."""
    odd: tuple[str, ...]


def overview(result: ImportResult) -> ImportOverview:
    """Return what was imported."""
    data_set, recordings = result.data_set, result.recordings
    about = data_set.about
    seconds = [one.samples / one.sample_rate for one in recordings]
    channels = ", ".join(f"{one.name} ({one.unit})" for one in about.channels)
    specimens = len({one.specimen for one in data_set.selected})
    facts = [
        ("recordings", f"{len(recordings)}, {sum(seconds):.4g} s in all"),
        ("lengths", f"{min(seconds):.4g} to {max(seconds):.4g} s"),
        ("sample rate", f"{about.sample_rate:g} Hz"),
        ("channels", channels),
        ("conditions", ", ".join(f"{one.name} ({one.unit or 'no unit'})" for one in about.conditions) or "none"),
        (f"{data_set.about.specimen_kind}s", f"{specimens} per class at most" if specimens > 1 else "one"),
    ]
    odd = [*_short(recordings, seconds), *_coverage(data_set), *_reader_notes(recordings), *result.damaged]
    return ImportOverview(tuple(facts), about.classes, tuple(_points(data_set)), tuple(odd))


def _points(data_set: DataSet) -> list[tuple[str, tuple[int, ...]]]:
    counts = Counter((one.point, one.entry.label) for one in data_set.selected)
    order = {one.name: place for place, one in enumerate(data_set.about.conditions)}
    points = {one.point: sorted((order[k], v) for k, v in one.entry.levels.items()) for one in data_set.selected}
    names = sorted(points, key=lambda point: points[point])
    return [(point, tuple(counts[point, label] for label in data_set.about.classes)) for point in names]


def _short(recordings: Sequence[ImportedRecording], seconds: Sequence[float]) -> list[str]:
    usual = median(seconds)
    found = [(one, length) for one, length in zip(recordings, seconds, strict=True) if length < SHORT * usual]
    if not found:
        return []
    first, length = found[0]
    text = (
        f"{len(found)} recordings are much shorter than the usual {usual:.3g} s, such as {Path(first.file).stem} with "
        f"{length:.3g} s; the shortest one limits the windows of a model"
    )
    return [text]


def _coverage(data_set: DataSet) -> list[str]:
    """Return which classes were not recorded everywhere, and what cannot be learnt from the set."""
    points = {
        label: {one.point for one in data_set.selected if one.entry.label == label} for label in data_set.about.classes
    }
    everywhere = set().union(*points.values())
    odd = []
    for label, own in points.items():
        missing = sorted(everywhere - own)
        if missing:
            odd.append(
                f"{label} was not recorded at {len(missing)} of {len(everywhere)} conditions, such as {missing[0]}"
            )
    if len(points) == 1:
        odd.append("all recordings are healthy: a model can learn that the machine changed, not which fault it has")
    if data_set.only_condition is not None:
        odd.append("all recordings are at one operating condition: accuracy at others cannot be estimated")
    return odd


def _reader_notes(recordings: Sequence[ImportedRecording]) -> list[str]:
    """Return what the readers noted, each once, with the number of files."""
    counts = Counter(note for one in recordings for note in dict.fromkeys(one.notes))
    return [
        f"{note} ({'all files' if count == len(recordings) else _files(count)})" for note, count in counts.most_common()
    ]


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
