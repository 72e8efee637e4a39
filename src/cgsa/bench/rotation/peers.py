"""Peers: plain classifiers from the literature that a diagnosis model must beat to be worth its effort.

They need scikit-learn and aeon, which are imported when a peer is fitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from cgsa.bench.extras import import_extra
from cgsa.offline.references import HEALTHY

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]


class Peer(ABC):
    """A classifier of windows."""

    name: ClassVar[str]
    reads: ClassVar[Literal["spectra", "samples"]] = "spectra"
    """Averaged log spectra, (windows, features), or raw windows, (windows, channels, samples)."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Optional packages that it needs."""
    depends_on_seed: ClassVar[bool] = False
    """Whether another seed gives another model."""
    windows_per_length: ClassVar[int] = 32
    """Most windows that begin within one window length; a slow peer gets fewer."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    @abstractmethod
    def fit(self, x: FloatArray, y: IntArray) -> None:
        """Learn from windows and their labels; every class occurs."""

    @abstractmethod
    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the probability of every class, (windows, classes)."""

    @classmethod
    def require_packages(cls) -> None:
        """Fail with a hint if an optional package is missing."""
        for package in cls.packages:
            import_extra(package, extra="peers", purpose=f"peer {cls.name}")

    def _import(self, module: str) -> Any:
        return import_extra(module, extra="peers", purpose=f"peer {self.name}")


class SpectrumPeer(Peer):
    """A scikit-learn classifier of spectra."""

    packages = ("sklearn",)

    def fit(self, x: FloatArray, y: IntArray) -> None:
        """Standardise every feature, and fit the classifier."""
        scaler = self._import("sklearn.preprocessing").StandardScaler()
        self._model = self._import("sklearn.pipeline").make_pipeline(scaler, self._classifier()).fit(x, y)

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the classifier's probabilities."""
        return np.asarray(self._model.predict_proba(x))

    @abstractmethod
    def _classifier(self) -> Any:
        """Return a new classifier."""


class LogisticPeer(SpectrumPeer):
    """Logistic regression."""

    name = "logistic regression"

    def _classifier(self) -> Any:
        return self._import("sklearn.linear_model").LogisticRegression(max_iter=2000)


class LdaPeer(SpectrumPeer):
    """Linear discriminant analysis with a covariance shrunk by Ledoit and Wolf's rule."""

    name = "shrinkage LDA"

    def _classifier(self) -> Any:
        analysis = self._import("sklearn.discriminant_analysis").LinearDiscriminantAnalysis
        return analysis(solver="lsqr", shrinkage="auto")


class ExtraTreesPeer(SpectrumPeer):
    """Extremely randomised trees."""

    name = "extra trees"
    depends_on_seed = True

    def _classifier(self) -> Any:
        return self._import("sklearn.ensemble").ExtraTreesClassifier(n_estimators=300, random_state=self.seed)


class NeighboursPeer(SpectrumPeer):
    """The five nearest training windows."""

    name = "nearest neighbours"

    def _classifier(self) -> Any:
        return self._import("sklearn.neighbors").KNeighborsClassifier(n_neighbors=5)


class MiniRocketPeer(Peer):
    """Logistic regression on the features of MiniRocket: random convolutions of the raw samples."""

    name = "MiniRocket"
    reads = "samples"
    packages = ("sklearn", "aeon")
    depends_on_seed = True
    # Its features take some ten milliseconds per window.
    windows_per_length = 4

    def fit(self, x: FloatArray, y: IntArray) -> None:
        """Draw the convolutions, and fit the classifier of their features."""
        rocket = self._import("aeon.transformations.collection.convolution_based").MiniRocket
        self._rocket = rocket(random_state=self.seed, n_jobs=1)
        self._classifier = LogisticPeer()
        self._classifier.fit(self._rocket.fit_transform(x), y)

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the classifier's probabilities."""
        return self._classifier.predict_proba(self._rocket.transform(x))


class RmsPeer(Peer):
    """Limits on the RMS of every channel, as a simple monitor has them: it finds a fault and cannot say which."""

    name = "RMS limits"
    reads = "samples"
    # Raw windows take memory.
    windows_per_length = 4
    deviations: ClassVar[float] = 3.0
    """How far a limit is above the mean of the healthy windows, in standard deviations."""

    def fit(self, x: FloatArray, y: IntArray) -> None:
        """Set the limits from the healthy windows; every alarm is called the most frequent fault."""
        healthy = _rms(x[y == HEALTHY])
        self._limits = healthy.mean(axis=0) + self.deviations * healthy.std(axis=0)
        counts = np.bincount(y)
        counts[HEALTHY] = 0
        self._classes, self._fault = len(counts), int(counts.argmax())

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return certainty, one way or the other."""
        exceeded = (_rms(x) > self._limits).any(axis=1)
        return np.asarray(np.eye(self._classes)[np.where(exceeded, self._fault, HEALTHY)])


PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (LogisticPeer, LdaPeer, ExtraTreesPeer, NeighboursPeer, MiniRocketPeer, RmsPeer)
}
"""All peers by name."""


def _rms(x: FloatArray) -> FloatArray:
    """Return the RMS of every channel of every window, (windows, channels)."""
    return np.asarray(np.sqrt(np.square(x, dtype=np.float64).mean(axis=2)))
