"""The bundle: a trained model and all that is needed to use it, in a folder that runs no code.

``manifest.json`` says what the model is; ``model.safetensors`` holds its
numbers. Nothing is ever unpickled. A bundle is checked before it is believed:
version, settings, hash, and the name, type and shape of every tensor.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from cgsa.config import as_table, bind, one_as, stored_as
from cgsa.data.equal_samples import EqualSampleCounts
from cgsa.data.recording import Interval
from cgsa.data.scenario import Condition, check_conditions
from cgsa.data.windows import WindowSpec
from cgsa.errors import BundleError, ConfigError
from cgsa.files import replacing
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig
from cgsa.nn.state import add_prefix, select_prefix

FORMAT = "cgsa-bundle"
VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "model.safetensors"
MAX_MANIFEST_BYTES = 4 * 2**20
MAX_HEADER_BYTES = 2**20
MAX_TENSOR_BYTES = 4 * 2**30


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

    @property
    def held_out_accuracy(self) -> float:
        """Mean of both accuracies, by which models are selected: a stream brings new conditions and later times."""
        return self.accuracy if self.latest_accuracy is None else (self.accuracy + self.latest_accuracy) / 2

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.distance <= 0:
            raise ConfigError(f"temperature {self.temperature:g}, distance {self.distance:g}; expected positive ones")


@dataclass(frozen=True)
class Manifest:
    """What a bundle says about its model."""

    classes: tuple[str, ...]
    """Names of the classes in the order of the scores, the healthy one first."""
    channels: tuple[str, ...]
    units: tuple[str, ...]
    sample_rate: float
    window: WindowSpec
    conditions: tuple[Condition, ...] = field(metadata=one_as("condition"))
    network: NetworkConfig
    discriminator: DiscriminatorConfig | None = None
    """Shape of the condition discriminator; none where training had none."""
    scenario: str = ""
    objective: str = ""
    seed: int = 0
    usual_confidence: float | None = None
    """Confidence that 95 % of the training windows reach; none in bundles that were not trained here."""
    usual_responses: tuple[tuple[float, float], ...] | None = None
    """Of each condition: between what bounds 99 % of the training windows had their residual response; none where there
    is no discriminator."""
    usual_ties: tuple[EqualSampleCounts, ...] | None = None
    """Of each channel: how many equal samples its training windows had; none in bundles that were not trained here."""
    calibration: Calibration | None = None
    """None where training did not ask for it."""
    notes: tuple[str, ...] = ()
    """What a user of the model must know, such as a training that ended at chance."""

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(self.channels) != len(self.units) or not self.channels:
            raise ConfigError("expected at least two classes, and one unit a channel")
        check_conditions(self.conditions)
        widths = (*self.network.hidden, *((self.discriminator and self.discriminator.hidden) or ()))
        if max(*widths, self.window.length, len(self.channels), len(self.classes)) > 2**20:
            raise ConfigError("a width beyond 1,048,576 is refused: no such model fits into memory")


@dataclass(frozen=True, eq=False)
class ModelBundle:
    """A trained source model: network, condition discriminator where there is one, and manifest."""

    manifest: Manifest
    network: DiagnosisNet
    discriminator: ConditionDiscriminator | None
    known: TrainingDistance | None = None
    """Where training was; there where the manifest has a calibration."""
    training: Mapping[str, object] = field(default_factory=dict)
    """How training went: settings, history by epoch, versions. For people, not for the model."""
    sha256: str = ""
    """Hash of the file that the tensors were read from; empty where they were not."""

    def to(self, device: torch.device | str) -> ModelBundle:
        """Return this bundle with its modules on ``device``."""
        return replace(
            self,
            network=self.network.to(device),
            discriminator=None if self.discriminator is None else self.discriminator.to(device),
            known=None if self.known is None else self.known.to(device),
        )

    def trained_on(self) -> list[Interval]:
        """Return the raw samples that the model was trained on."""
        found = self.training.get("trained_on", [])
        return [(str(source), int(begin), int(end)) for source, begin, end in cast(Iterable[Interval], found)]

    def require_discriminator(self) -> ConditionDiscriminator:
        """Return the condition discriminator, or say how to train one."""
        if self.discriminator is None:
            raise BundleError(
                f"this bundle has no condition discriminator: it was trained with objective "
                f"{self.manifest.objective!r}; train with objective 'cal'"
            )
        return self.discriminator

    def require_known(self) -> tuple[TrainingDistance, Calibration]:
        """Return where training was and what that is worth, or say how to get a model that knows."""
        if self.known is None or self.manifest.calibration is None:
            raise BundleError("this bundle has no calibration; train with train.calibrate, or under profile 'robust'")
        return self.known, self.manifest.calibration

    def require_reference(self) -> Tensor:
        """Return the healthy reference of the training, or say how to get a model that takes one."""
        if self.network.reference is None:
            raise BundleError(
                "this bundle takes no healthy reference; train with network.reference, as profile 'robust' does"
            )
        return self.network.reference

    def save(self, folder: str | Path) -> Path:
        """Write the bundle in one step; a bundle that is there already is replaced whole or not at all."""
        target = Path(folder)
        if target.exists() and not (target / MANIFEST).is_file():
            raise BundleError(f"{target}: exists and is no bundle; choose another folder")
        data = save_tensors({name: tensor.contiguous().cpu() for name, tensor in _tensors(self).items()})
        text = {
            "format": FORMAT,
            "version": VERSION,
            "model": as_table(self.manifest),
            "sha256": hashlib.sha256(data).hexdigest(),
            "training": dict(self.training),
        }
        with replacing(target, BundleError) as fresh:
            fresh.mkdir()
            (fresh / TENSORS).write_bytes(data)
            (fresh / MANIFEST).write_text(json.dumps(text, indent=1), encoding="utf-8")
        return target

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: torch.device | str = "cpu",
        *,
        vouch: Callable[[Path, bytes], None] | None = None,
    ) -> ModelBundle:
        """Read a bundle, or say why it is refused.

        ``vouch`` is told the folder and the bytes of the manifest before anything
        of them is parsed, and raises where they are not to be trusted. What it has
        seen is what is used, whoever writes to the folder meanwhile.
        """
        target = Path(folder)
        if not target.is_dir():
            what = "is a file" if target.exists() else "does not exist"
            raise BundleError(f"{target}: {what}; a bundle is a folder with {MANIFEST} and {TENSORS}")
        raw = _read_plain(target / MANIFEST, MAX_MANIFEST_BYTES)
        if vouch is not None:
            vouch(target, raw)
        text = _parse_manifest(raw, target / MANIFEST)
        try:
            manifest = bind(Manifest, _table(text, "model", target), f"{target / MANIFEST}: model")
        except ConfigError as error:
            raise BundleError(str(error)) from error
        data = _read_tensors(target / TENSORS)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 != text.get("sha256"):
            raise BundleError(f"{target / TENSORS}: hash differs from the manifest; the file was damaged or exchanged")
        bundle = cls(manifest, *_build_empty(manifest), training=_table(text, "training", target), sha256=sha256)
        _fill(bundle, data, target / TENSORS, device)
        for module in filter(None, (bundle.network, bundle.discriminator, bundle.known)):
            module.eval().requires_grad_(requires_grad=False)
        return bundle.to(device)


def _build_empty(manifest: Manifest) -> tuple[DiagnosisNet, ConditionDiscriminator | None, TrainingDistance | None]:
    # On the meta device nothing is allocated: a manifest that asks for a huge model costs no memory.
    with torch.device("meta"):
        network = DiagnosisNet(manifest.network, len(manifest.channels), manifest.window.length, len(manifest.classes))
        discriminator = None
        if manifest.discriminator is not None:
            discriminator = ConditionDiscriminator(
                network.feature_width, manifest.discriminator, len(manifest.conditions)
            )
        known = None
        if manifest.calibration is not None:
            known = TrainingDistance(len(manifest.classes), network.frontend.out_features, network.feature_width)
    return network, discriminator, known


def _tensors(bundle: ModelBundle) -> dict[str, Tensor]:
    found = add_prefix("network", bundle.network.state_dict())
    if bundle.discriminator is not None:
        found |= add_prefix("discriminator", bundle.discriminator.state_dict())
    if bundle.known is not None:
        found |= add_prefix("known", bundle.known.state_dict())
    return found


def _fill(bundle: ModelBundle, data: bytes, path: Path, device: torch.device | str) -> None:
    try:
        found = load_tensors(data)
    except SafetensorError as error:
        raise BundleError(f"{path}: not a safetensors file ({error})") from error
    expected = _tensors(bundle)
    problems = [f"no tensor {name}" for name in expected.keys() - found.keys()]
    problems += [f"unexpected tensor {name}" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        wanted, given = expected[name], found[name]
        if wanted.shape != given.shape or wanted.dtype != given.dtype:
            problems.append(
                f"tensor {name} is {given.dtype} {tuple(given.shape)}, expected {wanted.dtype} {tuple(wanted.shape)}"
            )
        elif not torch.isfinite(given).all():
            problems.append(f"tensor {name} holds NaN or infinity")
    if problems:
        raise BundleError(f"{path}: does not fit its manifest: " + "; ".join(sorted(problems)))
    placed = {name: tensor.to(device) for name, tensor in found.items()}
    bundle.network.load_state_dict(select_prefix("network", placed), assign=True)
    if bundle.discriminator is not None:
        bundle.discriminator.load_state_dict(select_prefix("discriminator", placed), assign=True)
    if bundle.known is not None:
        bundle.known.load_state_dict(select_prefix("known", placed), assign=True)


def _parse_manifest(raw: bytes, path: Path) -> dict[str, object]:
    try:
        text = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not JSON ({error})") from error
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise BundleError(f"{path}: no {FORMAT} manifest")
    if text.get("version") != VERSION:
        raise BundleError(f"{path}: bundle version {text.get('version')!r}; this cgsa reads version {VERSION}")
    return text


def _read_tensors(path: Path) -> bytes:
    data = _read_plain(path, MAX_TENSOR_BYTES)
    header = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header > min(MAX_HEADER_BYTES, len(data) - 8):
        raise BundleError(f"{path}: not a safetensors file: its header would take {header} bytes")
    return data


def _read_plain(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise BundleError(f"{path}: not a plain file")
        if status.st_size > limit:
            raise BundleError(f"{path}: {status.st_size} bytes; at most {limit} are read")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from error


def _table(text: Mapping[str, object], key: str, folder: Path) -> dict[str, object]:
    value = text.get(key)
    if not isinstance(value, dict):
        raise BundleError(f"{folder / MANIFEST}: {key!r} is missing or no table")
    return value
