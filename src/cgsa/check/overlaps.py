"""Stretches of samples that two recordings share, possibly shifted, cut, scaled or with another offset.

Candidates come from landmarks with equal patterns, so that the effort grows with the number of landmarks (times its
logarithm, for the sort) and not with the number of pairs of recordings. Every candidate is then compared sample by
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.check.landmarks import REACH, noise_level
from cgsa.check.recordings import LabelledRecording
from cgsa.check.summary import RecordingSummary

IntArray = npt.NDArray[np.int64]
LEAST_VOTES = 3
"""Landmarks that must agree on a shift before samples are compared."""
NEIGHBOURS = 2
"""Each landmark is paired with so many others of the same pattern: a chain links all copies in linear time."""
CANDIDATES_PER_CHANNEL = 4
"""Comparisons of samples per channel of the set, on average; periodic signals have more candidates than that."""
COMPARED = 1 << 16
"""Samples that are compared at most; a whole second copy of a large file adds nothing to the proof."""
SHORTEST_OVERLAP = 256
LARGEST_REMAINDER = 0.5
"""A copy differs from the original by less than this share of what cannot be predicted from neighbouring samples.

Two measurements of the same periodic process differ by the noise of both, 1.4 times this amount or more.
"""


@dataclass(frozen=True)
class Stretch:
    """Samples of one channel of a recording."""

    recording: int
    """Index within the set."""
    channel: int
    begin: int
    end: int


@dataclass(frozen=True)
class Overlap:
    """Two stretches with the same samples: ``second = scale * first + offset``."""

    first: Stretch
    second: Stretch
    scale: float
    offset: float


@dataclass(frozen=True)
class _Candidate:
    first: Stretch
    second: Stretch
    votes: int

    @property
    def pair(self) -> tuple[int, int]:
        return self.first.recording, self.second.recording


def find_overlaps(summaries: Sequence[RecordingSummary]) -> list[Overlap]:
    """Return the proven overlaps of a set, at most one per pair of channels and shift."""
    candidates = _candidates(summaries)
    most = CANDIDATES_PER_CHANNEL * sum(len(one.measured) for one in summaries)
    found: list[Overlap] = []
    settled: set[tuple[int, int, int, int]] = set()
    for candidate in candidates[:most]:
        first, second = candidate.first, candidate.second
        key = (first.recording, first.channel, second.recording, second.channel)
        # Within one recording, several repeated blocks have a shift each.
        if key in settled and first.recording != second.recording:
            continue
        overlap = _prove(candidate, summaries)
        if overlap is not None:
            settled.add(key)
            found.append(overlap)
    return found


def _candidates(summaries: Sequence[RecordingSummary]) -> list[_Candidate]:
    """Return pairs of channels whose landmarks agree on a shift, those with most landmarks first."""
    owners = [
        (number, place, channel.landmarks)
        for number, one in enumerate(summaries)
        for place, channel in enumerate(one.measured)
        if channel.landmarks is not None and not channel.statistics.constant
    ]
    if not owners:
        return []
    patterns = np.concatenate([landmarks.patterns for _, _, landmarks in owners])
    places = np.concatenate([landmarks.places for _, _, landmarks in owners])
    owner = np.repeat(np.arange(len(owners)), [len(landmarks.places) for _, _, landmarks in owners])
    order = np.lexsort((places, owner, patterns))
    patterns, places, owner = patterns[order], places[order], owner[order]
    pairs = [
        _votes_between(
            owner[:-distance][same], owner[distance:][same], places[:-distance][same], places[distance:][same]
        )
        for distance in range(1, NEIGHBOURS + 1)
        for same in [patterns[:-distance] == patterns[distance:]]
    ]
    votes = np.concatenate(pairs, axis=1)
    return _grouped(votes, [(number, place) for number, place, _ in owners])


def _votes_between(first: IntArray, second: IntArray, begin: IntArray, other: IntArray) -> IntArray:
    """Return owner, other owner, shift and place of each pair of equal patterns, (4, pairs)."""
    return np.stack([first, second, other - begin, begin])


def _grouped(votes: IntArray, owners: Sequence[tuple[int, int]]) -> list[_Candidate]:
    votes = votes[:, np.lexsort(votes[::-1])]
    begins = np.flatnonzero(np.append(True, (np.diff(votes[:3], axis=1) != 0).any(axis=0)))
    ends = np.append(begins[1:], votes.shape[1])
    enough = np.flatnonzero(ends - begins >= LEAST_VOTES)
    found = []
    for group in enough:
        first, second, shift, begin = (int(value) for value in votes[:, begins[group]])
        end = int(votes[3, ends[group] - 1])
        found.append(
            _Candidate(
                Stretch(*owners[first], begin - REACH, end + REACH + 1),
                Stretch(*owners[second], begin - REACH + shift, end + REACH + 1 + shift),
                int(ends[group] - begins[group]),
            )
        )
    return sorted(found, key=lambda one: -one.votes)


def _prove(candidate: _Candidate, summaries: Sequence[RecordingSummary]) -> Overlap | None:
    """Compare the samples of a candidate; None if they differ."""
    first, second = candidate.first, candidate.second
    shift = second.begin - first.begin
    if first.recording == second.recording and first.channel == second.channel and abs(shift) < SHORTEST_OVERLAP:
        return None
    # The patterns of the outer landmarks may agree although some of the samples around them differ already.
    margin = REACH if first.end - first.begin >= SHORTEST_OVERLAP + 2 * REACH else 0
    length = min(COMPARED, first.end - first.begin - 2 * margin)
    if length < SHORTEST_OVERLAP:
        return None
    begin = (first.begin + first.end - length) // 2
    original, copy = (
        read_samples(summaries[stretch.recording].recording, stretch.channel, begin + moved, begin + moved + length)
        for stretch, moved in ((first, 0), (second, shift))
    )
    fitted = fit_copy(original, copy)
    return None if fitted is None else Overlap(first, second, *fitted)


def fit_copy(original: npt.NDArray[np.float64], copy: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """Return scale and offset of a copy; None if it is none."""
    if len(original) != len(copy) or not original.std() or not copy.std():
        return None
    centred = original - original.mean()
    scale = float(centred @ copy / (centred @ centred))
    offset = float(copy.mean() - scale * original.mean())
    remainder = float(np.std(copy - scale * original))
    return (scale, offset) if remainder <= LARGEST_REMAINDER * noise_level(copy) else None


def read_samples(recording: LabelledRecording, channel: int, begin: int, end: int) -> npt.NDArray[np.float64]:
    """Return some samples of a channel; NaN and infinities are zero, as in the search for landmarks."""
    pieces, place = [np.empty(0)], 0
    for block in recording.blocks():
        first, last = max(begin - place, 0), min(end - place, block.shape[1])
        if first < last:
            pieces.append(block[channel, first:last].astype(np.float64))
        place += block.shape[1]
        if place >= end:
            break
    return np.nan_to_num(np.concatenate(pieces), nan=0.0, posinf=0.0, neginf=0.0)
