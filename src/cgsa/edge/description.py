"""The description of an exported model: every setting, limit and text that the runner needs, from where cgsa has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import accumulate, pairwise
from math import log
from typing import Any

from cgsa.decide.alarms import CLEAR, RAISE
from cgsa.decide.decision import LEAST_DISTANCE, UNCHANGED, DecisionMaker
from cgsa.decide.filter import StateFilter
from cgsa.decide.unknown import SHARPNESS as UNKNOWN_SHARPNESS
from cgsa.edge.model_graphs import kind_of
from cgsa.errors import ConfigError
from cgsa.events import OFF
from cgsa.live.intake.clipping import CERTAIN_SAMPLES
from cgsa.live.intake.quality import WINDOW_REASONS, QualityGate
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.live.standstill import LEAST_LEVEL, MACHINE_OFF, MEASURED, MEASURED_AT_REST
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.change import MOST_LOG_SCORE, USUAL_PROBABILITY, ChangeModel
from cgsa.nn.ensemble import LEAST_LOG_PROBABILITY, Ensemble
from cgsa.nn.own_start import PASSAGE, OwnStart
from cgsa.nn.reference import SHARPNESS, TINY
from cgsa.nn.reference_shift import EVIDENT, SHARES
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod
from cgsa.online.change import SMOOTHING_SECONDS, Change
from cgsa.online.commissioned import MIN_WINDOWS
from cgsa.online.commissioning import CONFIDENT, RETURNED_SHARE, Commissioning
from cgsa.online.healthy_start import (
    CAUSES,
    EXPLANATIONS,
    FAR,
    MAX_ROWS,
    MIN_SUITABLE_SHARE,
    MOVING_LEVEL,
    QUARTERS,
    STANDSTILL_SHARE,
)
from cgsa.online.reference import MIN_FITTING_SHARE, Reference
from cgsa.online.source import FrozenSource

FORMAT, VERSION = "cgsa-edge", 1
FROZEN: Mapping[str, tuple[type[OnlineMethod], frozenset[str]]] = {
    "source": (FrozenSource, frozenset({"ensemble", "network"})),
    "commissioning": (Commissioning, frozenset({"ensemble"})),
    "reference": (Reference, frozenset({"network"})),
    "change": (Change, frozenset({"change"})),
}
"""Methods that change no weight, and the kinds of models that they can be exported with."""


def describe_package(bundle: ModelBundle, config: DiagnosisConfig) -> dict[str, Any]:
    """Return the description of a model that is watched under some settings, or say why it cannot be exported."""
    manifest, method = bundle.manifest, frozen_method(bundle, config)
    channels, settings = len(manifest.channels), method.config
    scale = tuple(bundle.channel_scaling.get_buffer(name).cpu().numpy() for name in ("mean", "deviation"))
    usual = manifest.usual_equal_samples
    gate = QualityGate(config.quality, manifest.window, channels, scale=(scale[0], scale[1]), equal_samples=usual)
    known = manifest.known
    count = 0 if known is None else len(known.questions) + 1
    if known is not None and known.offset is not None:
        count += len(known.offset.questions) + 1
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind_of(bundle),
        "method": config.method,
        "classes": manifest.classes,
        "channels": manifest.channels,
        "units": manifest.units,
        "sample_rate": manifest.sample_rate,
        "window": {"length": manifest.window.length, "step": manifest.window.step},
        "batch_size": config.batch_size,
        "healthy_start": bool(getattr(settings, "healthy_start", False)),
        "least_good_share": MIN_SUITABLE_SHARE,
        "quality": {"reasons": WINDOW_REASONS, "limits": gate.limits(), "certain_samples": CERTAIN_SAMPLES},
        "standstill": _standstill(bundle, config),
        "decision": _decision(bundle, config),
        "model": _model(bundle, method),
        "questions": [None if known is None else known.question(number) for number in range(1 + count)],
    }
    if isinstance(method, Commissioning | Change):
        found["start"] = _start(bundle, settings)
    if (own_start := compared_start(bundle, config)) is not None:
        found["own_start"] = _own_start(bundle, own_start)
    return found


def compared_start(bundle: ModelBundle, config: DiagnosisConfig) -> OwnStart | None:
    """Return the comparison with the machine's healthy start, if the method of a watch uses it."""
    return bundle.own_start if METHODS[config.method] is Commissioning else None


def frozen_method(bundle: ModelBundle, config: DiagnosisConfig) -> OnlineMethod:
    """Return the method of a watch, if it changes no weight and suits the model."""
    kind, method = kind_of(bundle), METHODS[config.method]
    known, kinds = FROZEN.get(config.method, (None, frozenset[str]()))
    if method is not known:
        raise ConfigError(
            f"method {config.method!r} changes the model while it watches, which needs torch; expected a frozen one: "
            f"{', '.join(name for name, (_, suited) in FROZEN.items() if kind in suited)}"
        )
    if kind not in kinds:
        suited = ", ".join(name for name, (_, kinds) in FROZEN.items() if kind in kinds)
        raise ConfigError(f"method {config.method!r} does not suit this model; expected {suited}")
    return method(bundle, config.settings, seed=config.seed)


def _decision(bundle: ModelBundle, config: DiagnosisConfig) -> dict[str, Any]:
    maker, calibration = DecisionMaker(config.decide, bundle.manifest), bundle.manifest.calibration
    chains: StateFilter = maker.chains
    transitions = zip(("alarm", "state", "window"), (*chains.transitions, chains.window_transition), strict=True)
    beyond = calibration is not None and calibration.unknown_distance is not None
    return {
        "states": maker.states,
        "temperature": maker.temperature,
        "distance_limit": maker.distance_limit,
        "covered_distance": calibration.distance if calibration is not None and beyond else None,
        "unknown_sharpness": UNKNOWN_SHARPNESS,
        "unchanged": UNCHANGED,
        "least_distance": LEAST_DISTANCE,
        "least_probability": config.decide.least_probability,
        "hop": chains.hop,
        "lag": chains.lag,
        "running_means": maker.running_means,
        "transitions": {name: matrix.tolist() for name, matrix in transitions},
        "start": chains.alarm_posterior.tolist(),
        "alarm": {"raise": RAISE, "clear": CLEAR},
    }


def _standstill(bundle: ModelBundle, config: DiagnosisConfig) -> dict[str, Any]:
    return {
        **asdict(config.standstill),
        "lowest_levels": bundle.manifest.lowest_levels,
        "least_level": LEAST_LEVEL,
        "measured": {"running": MEASURED, "off": MEASURED_AT_REST},
        "state": OFF,
        "reason": MACHINE_OFF,
    }


def _own_start(bundle: ModelBundle, own_start: OwnStart) -> dict[str, Any]:
    sizes = [one.out_features for one in bundle.require_ensemble().feature_modules()]
    spans = list(pairwise(accumulate(sizes, initial=0)))
    return {
        "features": [spans[kind] for kind in own_start.config.kinds],
        "unchanged": float(own_start.unchanged),
        "changed": float(own_start.changed),
        "passage": PASSAGE,
        "most": MOST_LOG_SCORE,
    }


def _model(bundle: ModelBundle, method: OnlineMethod) -> dict[str, Any]:
    """Return the small tables of the model that reference handling needs."""
    model, manifest = bundle.model, bundle.manifest
    if isinstance(model, Ensemble):
        members = len(model.config.members)
        return {
            "least_log_probability": LEAST_LOG_PROBABILITY,
            "pool": model.pool.double().tolist(),
            "healthy_scores": model.healthy_scores()[:members].double().tolist(),
        }
    if isinstance(model, ChangeModel):
        return {
            "limits": model.limits.double().tolist(),
            "widths": model.widths.double().tolist(),
            "log_odds": log(1 / USUAL_PROBABILITY - 1),
            "steady": method.config.steady,
            "step_seconds": manifest.window.step / manifest.sample_rate,
            "smoothing_seconds": SMOOTHING_SECONDS,
            "most": MOST_LOG_SCORE,
        }
    found: dict[str, Any] = {} if model.reference is None else {"reference": model.reference.double().tolist()}
    if isinstance(method, Reference):
        step_seconds = manifest.window.step / manifest.sample_rate
        found |= {
            "windows": max(1, round(method.config.commission_seconds / step_seconds)),
            "known_distance": bundle.require_known()[1].distance,
            "fitting_share": MIN_FITTING_SHARE,
            "sharpness": SHARPNESS,
            "tiny": TINY,
        }
    return found


def _start(bundle: ModelBundle, settings: Any) -> dict[str, Any]:
    manifest = bundle.manifest
    calibration, rate = manifest.calibration, manifest.sample_rate
    return {
        "seconds": settings.seconds,
        "windows": max(MIN_WINDOWS, round(settings.seconds * rate / manifest.window.step)),
        "known": None if calibration is None else log(calibration.distance),
        "lowest_levels": manifest.lowest_levels,
        "causes": [(cause, None if cause is None else EXPLANATIONS[cause]) for cause in CAUSES],
        "far": FAR,
        "share": MIN_SUITABLE_SHARE,
        "standstill_share": STANDSTILL_SHARE,
        "moving_level": MOVING_LEVEL,
        "quarters": QUARTERS,
        "rows": MAX_ROWS,
        "evident": EVIDENT,
        "confident": CONFIDENT,
        "shares": SHARES,
        "returned_share": RETURNED_SHARE,
        "sharpness": SHARPNESS,
        "tiny": TINY,
        "least_distance": LEAST_DISTANCE,
    }
