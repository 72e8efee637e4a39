"""The bundle: a folder with a trained model and everything needed to use it; loading one runs no code.

``manifest.json`` describes the model; ``model.safetensors`` holds its weights. Before
a bundle is used, its version, settings and hash are checked, and the name, type and
shape of every tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module

from cgsa.config import as_table, bind, one_as, stored_as, stored_if_given
from cgsa.data.equal_samples import EqualSampleCounts
from cgsa.data.recording import Interval
from cgsa.data.scenario import Condition, check_conditions
from cgsa.data.windows import WindowSpec
from cgsa.errors import BundleError, ConfigError
from cgsa.files import replacing
from cgsa.nn import container
from cgsa.nn.assessment import Assessment
from cgsa.nn.change import ChangeAssessment, ChangeConfig, ChangeModel
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.deviation import UsualDeviation
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.ensemble import Ensemble, EnsembleConfig
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.known import KnownCheck, KnownConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig
from cgsa.nn.own_start import OwnStart, OwnStartConfig
from cgsa.nn.state import add_prefix, select_prefix

FORMAT = "cgsa-bundle"
VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "model.safetensors"
MAX_MANIFEST_BYTES = 4 * 2**20
MAX_HEADER_BYTES = 2**20


@dataclass(frozen=True)
class Calibration:
    """How a model performs at conditions that it has not seen, estimated by holding out levels of its training."""

    levels: int
    """Number of levels that were held out, one at a time."""
    accuracy: float
    """Accuracy at the held-out level of models trained without it."""
    temperature: float
    """Divides class scores, so that the confidence matches that accuracy."""
    distance: float
    """Distance from the training data below which 99 % of the held-out windows were, averaged over a few windows."""
    latest_accuracy: float | None = field(default=None, metadata=stored_as("later"))
    """Accuracy on the held-out latest quarter of each segment: known conditions, only time passed; None if unknown."""
    unknown_distance: float | None = field(default=None, metadata=stored_if_given())
    """Distance from which a window belongs to no known state; None if that is ``distance``."""

    @property
    def unknown_limit(self) -> float:
        """Distance from which a window belongs to no known state."""
        return self.distance if self.unknown_distance is None else self.unknown_distance

    @property
    def held_out_accuracy(self) -> float:
        """Mean of both accuracies, by which models are selected: a stream brings new conditions and later times."""
        return self.accuracy if self.latest_accuracy is None else (self.accuracy + self.latest_accuracy) / 2

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.distance <= 0 or self.unknown_limit <= 0:
            raise ConfigError(
                f"temperature {self.temperature:g}, distance {self.distance:g}, unknown_distance "
                f"{self.unknown_limit:g}; expected positive numbers"
            )


@dataclass(frozen=True)
class Manifest:
    """Description of the model in a bundle."""

    classes: tuple[str, ...]
    """Class names in the order of the scores, the healthy class first."""
    channels: tuple[str, ...]
    units: tuple[str, ...]
    sample_rate: float
    window: WindowSpec
    conditions: tuple[Condition, ...] = field(metadata=one_as("condition"))
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the diagnosis network; an ensemble has none."""
    ensemble: EnsembleConfig | None = field(default=None, metadata=stored_if_given())
    """Members of the ensemble; None if the model is a network."""
    change: ChangeConfig | None = field(default=None, metadata=stored_if_given())
    """Features of a model that was trained on healthy recordings alone; None for other models."""
    known: KnownConfig | None = field(default=None, metadata=stored_if_given())
    """Checks whether a signal is that of the machine; None if the model is a network."""
    own_start: OwnStartConfig | None = field(default=None, metadata=stored_if_given())
    """What an ensemble compares with the healthy start of the machine; None if it compares nothing."""
    discriminator: DiscriminatorConfig | None = None
    """Shape of the condition discriminator; None if training used none."""
    scenario: str = ""
    objective: str = ""
    seed: int = 0
    usual_confidence: float | None = None
    """Confidence that 95 % of the training windows reach; None if unknown."""
    usual_responses: tuple[tuple[float, float], ...] | None = None
    """For each condition, the bounds of the residual response of 99 % of the training windows; None without a
    discriminator."""
    usual_deviation: UsualDeviation | None = field(default=None, metadata=stored_if_given())
    """How the residual response deviates along the training recordings; None without a discriminator, and in bundles
    of older versions."""
    usual_equal_samples: tuple[EqualSampleCounts, ...] | None = field(default=None, metadata=stored_as("usual_ties"))
    """For each channel, how many equal samples its training windows have; None if unknown."""
    lowest_levels: tuple[float, ...] | None = field(default=None, metadata=stored_if_given())
    """For each channel, the standard deviation of the quietest training recording; None if unknown."""
    calibration: Calibration | None = None
    """None if training ran without calibration."""
    assessment: Assessment | None = field(default=None, metadata=stored_if_given())
    """Accuracy of an ensemble where it was not trained; None for networks and models of older versions."""
    healthy_only: ChangeAssessment | None = field(default=None, metadata=stored_if_given())
    """What is known of a model that was trained on healthy recordings alone; None for other models."""
    notes: tuple[str, ...] = ()
    """Warnings for users of the model, such as a training that ended near chance."""

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(self.channels) != len(self.units) or not self.channels:
            raise ConfigError("expected at least two classes, and one unit per channel")
        check_conditions(self.conditions)
        widths = (*self.network.hidden, *((self.discriminator and self.discriminator.hidden) or ()))
        if max(*widths, self.window.length, len(self.channels), len(self.classes)) > 2**20:
            raise ConfigError("a width above 1,048,576 is refused: no such model fits into memory")
        features = () if self.ensemble is None else self.ensemble.features
        if self.own_start is not None and not set(self.own_start.kinds) <= set(range(len(features))):
            raise ConfigError(
                f"own_start.kinds {list(self.own_start.kinds)}; expected some of 0 to {len(features) - 1}"
            )
        speed = None if self.ensemble is None else self.ensemble.speed
        if speed is not None and speed.condition >= len(self.conditions):
            raise ConfigError(f"speed is condition {speed.condition}; expected one of {len(self.conditions)}, from 0")
        if self.lowest_levels is not None and len(self.lowest_levels) != len(self.channels):
            raise ConfigError(f"{len(self.lowest_levels)} lowest levels; expected one for each of {len(self.channels)}")


@dataclass(frozen=True, eq=False)
class ModelBundle:
    """A trained source model: manifest, network or ensemble and, if trained with one, condition discriminator."""

    manifest: Manifest
    model: DiagnosisNet | Ensemble | ChangeModel
    discriminator: ConditionDiscriminator | None
    known: TrainingDistance | KnownCheck | None = None
    """What is known from training: its distribution, or the checks of an ensemble; present if the manifest has a
    calibration."""
    own_start: OwnStart | None = None
    """Comparison with the machine's healthy start; only beside an ensemble."""
    training: Mapping[str, object] = field(default_factory=dict)
    """Record of the training: settings, history by epoch, versions. The model does not use it."""
    sha256: str = ""
    """Hash of the file that the tensors were read from; empty if they were not read from a file."""

    def to(self, device: torch.device | str) -> ModelBundle:
        """Return this bundle with its modules on ``device``."""
        return replace(
            self,
            model=self.model.to(device),
            discriminator=None if self.discriminator is None else self.discriminator.to(device),
            known=None if self.known is None else self.known.to(device),
            own_start=None if self.own_start is None else self.own_start.to(device),
        )

    def trained_on(self) -> list[Interval]:
        """Return the intervals of raw samples that the model was trained on."""
        found = self.training.get("trained_on", [])
        return [(str(source), int(begin), int(end)) for source, begin, end in cast(Iterable[Interval], found)]

    @property
    def network(self) -> DiagnosisNet:
        """The diagnosis network; fails, and says how to train one, if the model is something else."""
        if isinstance(self.model, ChangeModel):
            raise BundleError(
                "this bundle was trained on healthy recordings alone; use method 'change', or train a network on "
                "recordings of faults"
            )
        if isinstance(self.model, Ensemble):
            raise BundleError(
                "this bundle is an ensemble, whose weights no method changes; train a network to adapt it, with "
                "objective 'cal' or under profile 'paper'"
            )
        return self.model

    @property
    def channel_scaling(self) -> Module:
        """The part with mean and deviation of the samples of every channel in training."""
        return self.model if isinstance(self.model, FeatureModel) else self.model.frontend

    def require_ensemble(self) -> Ensemble:
        """Return the ensemble, or say how to train one."""
        if not isinstance(self.model, Ensemble):
            what = "was trained on healthy recordings alone" if self.manifest.change else "is a network"
            raise BundleError(f"this bundle {what}; train an ensemble with objective 'ensemble'")
        return self.model

    def require_change(self) -> ChangeModel:
        """Return the model of the healthy machine, or say how to train one."""
        if not isinstance(self.model, ChangeModel):
            raise BundleError("this bundle knows faults; train a model of the healthy machine with --healthy-only")
        return self.model

    def checks_on(self, device: torch.device) -> KnownCheck | None:
        """Return a copy of the checks of an ensemble on a device; None if there are none."""
        return deepcopy(self.known).to(device) if isinstance(self.known, KnownCheck) else None

    def own_start_on(self, device: torch.device) -> OwnStart | None:
        """Return a copy of the comparison with the healthy start on a device; None if there is none."""
        return None if self.own_start is None else deepcopy(self.own_start).to(device)

    def require_discriminator(self) -> ConditionDiscriminator:
        """Return the condition discriminator, or say how to train one."""
        if self.discriminator is None:
            raise BundleError(
                f"this bundle has no condition discriminator: it was trained with objective "
                f"{self.manifest.objective!r}; train with objective 'cal'"
            )
        return self.discriminator

    def require_known(self) -> tuple[TrainingDistance, Calibration]:
        """Return the distribution of a network's training data and its calibration, or say how to train both."""
        if not isinstance(self.known, TrainingDistance) or self.manifest.calibration is None:
            raise BundleError("this bundle has no calibration of a network; train with train.calibrate=true")
        return self.known, self.manifest.calibration

    def require_reference(self) -> Tensor:
        """Return the healthy reference of the training, or say how to train a model that uses one."""
        reference = self.network.reference
        if reference is None:
            raise BundleError("this bundle uses no healthy reference; train with network.reference=true")
        return reference

    def save(self, folder: str | Path) -> Path:
        """Write the bundle atomically; an existing bundle is replaced as a whole or not at all."""
        target = Path(folder)
        if target.exists() and not (target / MANIFEST).is_file():
            raise BundleError(f"{target}: exists and is no bundle; choose another folder")
        data = b"".join(container.encode_tensors(self._tensors()))
        text = {
            "format": FORMAT,
            "version": VERSION,
            "model": as_table(self.manifest),
            "sha256": container.sha256_of([data]),
            "training": dict(self.training),
        }
        with replacing(target, BundleError) as fresh:
            fresh.mkdir()
            (fresh / TENSORS).write_bytes(data)
            (fresh / MANIFEST).write_bytes(container.encode_object(text, "the record of a training", indent=1))
        return target

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: torch.device | str = "cpu",
        *,
        verify: Callable[[Path, bytes], None] | None = None,
    ) -> ModelBundle:
        """Read a bundle, or say why it is refused.

        ``verify`` receives the folder and the bytes of the manifest before they are
        parsed, and raises if they are not to be trusted. The bytes it has seen are the
        ones used, even if the folder changes meanwhile.
        """
        target = Path(folder)
        if not target.is_dir():
            what = "is a file" if target.exists() else "does not exist"
            raise BundleError(f"{target}: {what}; a bundle is a folder with {MANIFEST} and {TENSORS}")
        raw = container.read_regular(target / MANIFEST, MAX_MANIFEST_BYTES)
        if verify is not None:
            verify(target, raw)
        text = _parse_manifest(raw, target / MANIFEST)
        try:
            manifest = bind(Manifest, _table(text, "model", target), f"{target / MANIFEST}: model")
            modules = _build_empty(manifest)
        except ConfigError as error:
            raise BundleError(str(error)) from error
        path = target / TENSORS
        data = container.read_regular(path, container.MAX_TENSOR_BYTES)
        sha256 = container.sha256_of([data])
        if sha256 != text.get("sha256"):
            raise BundleError(f"{path}: hash differs from the manifest; the file was damaged or exchanged")
        tensors = container.decode_tensors(data, path, max_header=MAX_HEADER_BYTES)
        bundle = cls(manifest, *modules, training=_table(text, "training", target), sha256=sha256)
        container.check_tensors(tensors, bundle._tensors(), path)
        for part, module in bundle._modules():
            found = {name: tensor.to(device) for name, tensor in select_prefix(part, tensors).items()}
            module.load_state_dict(found, assign=True)
            module.eval().requires_grad_(requires_grad=False)
        return bundle.to(device)

    def _modules(self) -> list[tuple[str, Module]]:
        parts = {
            "network": self.model,
            "discriminator": self.discriminator,
            "known": self.known,
            "own_start": self.own_start,
        }
        return [(name, module) for name, module in parts.items() if module is not None]

    def _tensors(self) -> dict[str, Tensor]:
        states = [add_prefix(part, module.state_dict()) for part, module in self._modules()]
        return {name: tensor for state in states for name, tensor in state.items()}


def _build_empty(
    manifest: Manifest,
) -> tuple[
    DiagnosisNet | Ensemble | ChangeModel,
    ConditionDiscriminator | None,
    TrainingDistance | KnownCheck | None,
    OwnStart | None,
]:
    # The meta device allocates nothing: a manifest that asks for a huge model costs no memory.
    with torch.device("meta"):
        if manifest.change is not None:
            return ChangeModel(manifest.change, len(manifest.channels), manifest.window), None, None, None
        if manifest.ensemble is not None:
            ensemble = Ensemble(manifest.ensemble, len(manifest.channels), manifest.window, len(manifest.classes))
            check = None if manifest.known is None else KnownCheck(manifest.known, ensemble.feature_count)
            sizes = [one.out_features for one in ensemble.feature_modules()]
            own_start = None if manifest.own_start is None else OwnStart(manifest.own_start, sizes)
            return ensemble, None, check, own_start
        network = DiagnosisNet(manifest.network, len(manifest.channels), manifest.window.length, len(manifest.classes))
        discriminator = None
        if manifest.discriminator is not None:
            discriminator = ConditionDiscriminator(
                network.feature_width, manifest.discriminator, len(manifest.conditions)
            )
        known = None
        if manifest.calibration is not None:
            known = TrainingDistance(len(manifest.classes), network.frontend.out_features, network.feature_width)
    return network, discriminator, known, None


def _parse_manifest(raw: bytes, path: Path) -> dict[str, object]:
    text = container.parse_object(raw, path)
    if text.get("format") != FORMAT:
        raise BundleError(f"{path}: no {FORMAT} manifest")
    if text.get("version") != VERSION:
        raise BundleError(f"{path}: bundle version {text.get('version')!r}; this cgsa reads version {VERSION}")
    return text


def _table(text: Mapping[str, object], key: str, folder: Path) -> dict[str, object]:
    value = text.get(key)
    if not isinstance(value, dict):
        raise BundleError(f"{folder / MANIFEST}: {key!r} is missing or no table")
    return value
