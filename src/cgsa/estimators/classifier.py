"""A classifier of recordings with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.estimators.packing import pack, unpack
from cgsa.estimators.training import train_on, windows_of
from cgsa.estimators.training_set import (
    SAMPLES_AS_SECONDS,
    holds_recordings,
    recordings_of,
    require_units,
    unit_numbers,
    with_conditions,
)
from cgsa.nn.bundle import ModelBundle
from cgsa.online.source import FrozenSource
from cgsa.profile import Profile

HEALTHY_NAMES = ("health", "healthy", "normal", "ok", "good", "sound")
"""Labels that mean the healthy machine, in lower case."""
CHUNK = 256


class InvalidInputError(DataError, ValueError):
    """Input that scikit-learn expects to be refused with a ``ValueError``."""


class CgsaClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Classify recordings of a machine by its state, as ``cgsa train`` trains a model.

    ``X`` is an array (recordings, channels, samples), an array (recordings, samples) of one channel, or a sequence of
    recordings: objects of :class:`~cgsa.data.recording.Recording`, paths of files, tables with a column per channel,
    or arrays (samples, channels), which may differ in length.

    Parameters
    ----------
    sample_rate
        Rate of the samples in Hz. None takes that of the recordings, or counts time in samples.
    channels, channel_units
        Names and units of the channels; by default those of the recordings.
    healthy
        Label of the healthy machine. None takes a label that says so, such as ``healthy`` or ``normal``, or else the
        first.
    profile
        Settings of the training, by name or as a file.
    changes
        Settings that differ from those of the profile, as nested tables, such as ``{"ensemble": {"seconds": 0.5}}``.
    random_state
        Seed of networks; an ensemble needs none.

    Attributes
    ----------
    classes_ : array
        Labels in sorted order.
    n_features_in_ : int
        Channels, or samples of a recording if ``X`` is (recordings, samples).
    bundle_ : ModelBundle
        The trained model.
    healthy_ : label
        Label of the healthy machine.
    objective_ : str
        What was trained: ``ensemble``, unless the profile says something else or the recordings are too short.
    notes_ : tuple of str
        What the training had to do without, in words.
    held_out_accuracy_ : float or None
        Estimated accuracy where the model was not trained; None if nothing could be held out.
    """

    def __init__(
        self,
        *,
        sample_rate: float | None = None,
        channels: Sequence[str] | None = None,
        channel_units: Sequence[str] | None = None,
        healthy: object | None = None,
        profile: str | PathLike[str] = "recommended",
        changes: Mapping[str, object] | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.sample_rate = sample_rate
        self.channels = channels
        self.channel_units = channel_units
        self.healthy = healthy
        self.profile = profile
        self.changes = changes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, conditions: Any = None, units: Any = None) -> Self:
        """Train on labelled recordings.

        Parameters
        ----------
        X, y
            Recordings and their labels.
        conditions
            Operating conditions, one number per recording: an array, a table or mapping with a column for each.
            Each level of them is held out in turn, to weigh the members of the ensemble and to estimate its accuracy.
            By default, those of the recordings.
        units
            Which assembly of the machine each recording is of, if there are several; held out in turn, too.
        """
        recordings, labels = self._training(X, y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InvalidInputError(f"y has 1 class, {classes[0]}; expected at least two classes, one of them healthy")
        self.classes_ = classes
        place, notes = self._healthy_place(classes)
        if self.sample_rate is None and all(one.sample_rate == SAMPLES_AS_SECONDS for one in recordings):
            notes += ("sample_rate is unknown: times and windows are counted in samples",)
        self._order = [place, *(other for other in range(len(classes)) if other != place)]
        self.healthy_ = classes[place]
        trained = train_on(
            with_conditions(recordings, conditions),
            [self._order.index(number) for number in np.searchsorted(classes, labels).tolist()],
            unit_numbers(units, len(recordings)),
            [str(classes[number]) for number in self._order],
            Profile.load(str(self.profile), self.changes),
            seed=self._seed(),
        )
        self._use(trained.bundle)
        read = dict.fromkeys(f"{one.source}: {note}" for one in recordings for note in one.notes)
        self.notes_ = (*notes, *read, *trained.notes)
        return self

    def predict_proba(self, X: Any, conditions: Any = None) -> npt.NDArray[np.float64]:
        """Return class probabilities of recordings, (recordings, classes): the means over their windows.

        ``conditions`` are as for :meth:`fit`; a model that knows the speed of its training uses that of the recordings.
        """
        check_is_fitted(self)
        manifest = self.bundle_.manifest
        recordings = with_conditions(self._recordings(X, reset=False), conditions)
        recordings = [one.select(manifest.channels) for one in recordings]
        require_units(recordings, manifest.units)
        windows = windows_of(recordings, manifest.conditions, manifest.objective, spec=manifest.window)
        if windows.sample_rate != manifest.sample_rate:
            raise DataError(f"{windows.sample_rate:g} Hz; the model was trained at {manifest.sample_rate:g} Hz")
        names = {condition.name for condition in manifest.conditions}
        known = windows.conditions if all(names <= set(one.conditions) for one in recordings) else None
        method = FrozenSource(self.bundle_)
        outputs = [
            method.step(x, learn=False, conditions=None if known is None else known[where])
            for where, x in windows.batches(CHUNK)
        ]
        found = torch.cat([output.probabilities.double() for output in outputs])
        sums = torch.zeros(len(recordings), found.shape[1], dtype=torch.float64)
        sums.index_add_(0, windows.segments, found)
        means = (sums / sums.sum(dim=1, keepdim=True)).numpy()
        result = np.empty_like(means)
        result[:, self._order] = means
        return result

    def predict(self, X: Any, conditions: Any = None) -> npt.NDArray[Any]:
        """Return the most probable label of each recording; ``conditions`` are as for :meth:`fit`."""
        probabilities = self.predict_proba(X, conditions)
        found: npt.NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return found

    def to_bundle(self) -> ModelBundle:
        """Return the trained model, which a :class:`~cgsa.estimators.machine.Machine` and all commands take."""
        check_is_fitted(self)
        return self.bundle_

    def save(self, folder: str | PathLike[str]) -> Path:
        """Save the trained model as a bundle."""
        return self.to_bundle().save(Path(folder))

    def _training(self, X: Any, y: Any) -> tuple[list[Recording], npt.NDArray[Any]]:
        if holds_recordings(X):
            labels = column_or_1d(y, warn=True)
            check_consistent_length(X, labels)
            check_classification_targets(labels)
            return self._recordings(X), labels
        values, labels = validate_data(self, X, y, dtype="numeric", allow_nd=True, ensure_min_features=2)
        check_classification_targets(labels)
        return self._of_array(values), labels

    def _recordings(self, X: Any, *, reset: bool = True) -> list[Recording]:
        if not holds_recordings(X):
            return self._of_array(validate_data(self, X, reset=reset, dtype="numeric", allow_nd=True))
        found = self._as_recordings(X)
        if reset:
            self.n_features_in_ = len(found[0].channels)
        return found

    def _of_array(self, values: npt.NDArray[Any]) -> list[Recording]:
        if values.ndim not in {2, 3}:
            raise InvalidInputError(
                f"X has shape {values.shape}; expected (recordings, samples) or (recordings, channels, samples)"
            )
        return self._as_recordings(values)

    def _as_recordings(self, X: Any) -> list[Recording]:
        return recordings_of(X, sample_rate=self.sample_rate, channels=self.channels, channel_units=self.channel_units)

    def _healthy_place(self, classes: npt.NDArray[Any]) -> tuple[int, tuple[str, ...]]:
        """Return the place of the healthy label among the sorted ones, with a note if it is a guess."""
        if self.healthy is not None:
            places = np.flatnonzero(classes == self.healthy)
            if len(places) != 1:
                raise InvalidInputError(
                    f"healthy={self.healthy!r}; expected one of the labels {', '.join(map(str, classes))}"
                )
            return int(places[0]), ()
        named = [place for place, one in enumerate(classes) if str(one).lower() in HEALTHY_NAMES]
        if named:
            return named[0], ()
        return 0, (f"no label says that the machine is healthy: {classes[0]} was taken; pass healthy= if it is not",)

    def _seed(self) -> int:
        """Return the seed that is given, as ``cgsa train`` takes it, or one that is drawn."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _use(self, bundle: ModelBundle) -> None:
        self.bundle_ = bundle
        self.objective_ = bundle.manifest.objective
        assessment = bundle.manifest.assessment
        leading = None if assessment is None else assessment.leading
        self.held_out_accuracy_ = None if leading is None else leading.accuracy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "bundle_" in state:
            state["bundle_"] = pack(state["bundle_"])
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        found = dict(state)
        if "bundle_" in found:
            found["bundle_"] = unpack(found["bundle_"])
        super().__setstate__(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
