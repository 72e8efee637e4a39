"""CGSA: condition-guided selective adaptation, the online stage (Algorithm 1).

J. Liu, Z. Liu, H. Zhao, P. Han and X. He, "Fault Diagnosis of Dynamic Systems Under Unknown Operating Conditions: A
Condition-Guided Selective Adaptation Approach".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cgsa.config import stored_if_given
from cgsa.data.windows import to_device
from cgsa.engines.base import EngineBatch, EngineOutput, SourceModel
from cgsa.engines.choose import EngineSetting, make_engine
from cgsa.errors import ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.deviation import QUEUE, TAU
from cgsa.online.base import MethodConfig, OnlineMethod, StepOutput
from cgsa.online.evidence import split_by_condition
from cgsa.online.gate import ReliabilityGate, residual_threshold


@dataclass(frozen=True)
class CgsaConfig(MethodConfig):
    """Settings of the online stage, as in section III-A3 of the paper."""

    lr: float = 5e-4
    """eta, the learning rate of Adam."""
    queue: int = QUEUE
    """W, the capacity of the response queue."""
    tau: float | Literal["auto"] = TAU
    """tau_mu, the upper bound on the deviation of a consistent window. ``auto`` takes it from the scale on which the
    response of this model varies: the deviation that ``auto_share`` of its training windows do not exceed."""
    auto_share: float = field(default=0.5, metadata=stored_if_given())
    """Share of the training windows that are consistent with tau ``auto``; ours."""
    min_confidence: float = 0.9
    """epsilon_p, the lower bound on the confidence of a pseudo-label."""
    by_confidence: bool = True
    """Confidence filtering; false gives the ablation CAL+RCG."""
    by_residual: bool = True
    """Residual condition guidance; false gives the ablation CAL+CF."""
    engine: EngineSetting = "auto"
    """How the student is computed: in single precision (``float32``; Fourier transforms replace the products of a large
    first layer, everything else is bit-identical to Algorithm 1); with gradients of weights in bfloat16 (``mixed``); on
    a GPU, as one recorded CUDA graph in TF32 (``graph``). ``auto`` is graph on a GPU and float32 on a CPU."""

    def __post_init__(self) -> None:
        tau = self.tau if isinstance(self.tau, str) else f"{self.tau:g}"
        positive = self.lr > 0 and (isinstance(self.tau, str) or self.tau > 0)
        if self.queue < 1 or not positive or not 0 <= self.min_confidence < 1 or not 0 < self.auto_share <= 1:
            raise ConfigError(
                f"queue {self.queue}, lr {self.lr:g}, tau {tau}, min_confidence {self.min_confidence:g}, auto_share "
                f"{self.auto_share:g}; expected queue >= 1, lr > 0, tau > 0, 0 <= min_confidence < 1 and "
                f"0 < auto_share <= 1"
            )

    def tau_for(self, bundle: ModelBundle) -> float:
        """Return tau as a number; with ``auto`` it depends on the model."""
        return residual_threshold(self.tau, self.auto_share, bundle)


class Cgsa(OnlineMethod):
    """A student learns the pseudo-labels of the frozen source model for windows whose residual response is steady."""

    Config: ClassVar[type[MethodConfig]] = CgsaConfig
    summary: ClassVar[str] = "the paper: student updated on windows chosen by residual condition and confidence"
    needs: ClassVar[frozenset[str]] = frozenset({"discriminator"})
    source_labels: ClassVar[str | None] = "pseudo_label"

    def reset(self) -> None:
        """Freeze F_P, G_P and D_P, copy the student F_S, G_S from them and empty the queue."""
        config: CgsaConfig = self.config
        criteria = {"by_residual": config.by_residual, "by_confidence": config.by_confidence}
        self.gate = ReliabilityGate(config.queue, config.tau_for(self.bundle), config.min_confidence, **criteria)
        self.conditions = [condition.name for condition in self.bundle.manifest.conditions]
        # CGSA draws no random numbers; stored states have held these since version 0.1.0.
        self.random_state = torch.Generator(self.device).manual_seed(self.seed).get_state()
        self._reset_student()

    def algorithm_1(self, batch: EngineBatch, *, learn: bool) -> EngineOutput:
        """Diagnose one batch, then learn from it; engines may record this sequence once and replay it."""
        with batch.in_parallel():
            # Eqs. (6) to (8): pseudo-label, confidence and residual response of the frozen source model.
            source = batch.source()
            # Eqs. (9) to (11): queue mean, deviation and the reliable set.
            selection, queue = self.gate.select(batch.queue, source.response, source.confidence)
            if learn:
                batch.update_queue(queue)
        # Eq. (5): the diagnosis, from the student before its update. A GPU starts with the longer branch above.
        probabilities = batch.student()
        # Eqs. (12) and (13): one step on the reliable windows; none if there are none.
        if learn:
            batch.adapt(selection.accepted, source.pseudo_label)
        accepted = selection.accepted if learn else torch.zeros_like(selection.accepted)
        return EngineOutput(probabilities, source, accepted, selection.queue_mean, selection.deviation)

    def step_output(self, found: EngineOutput) -> StepOutput:
        """Return the output of an engine, with its evidence by name."""
        evidence = {
            **split_by_condition("response", self.conditions, found.source.response),
            **split_by_condition("queue_mean", self.conditions, found.queue_mean),
            "deviation": found.deviation,
            "confidence": found.source.confidence,
            "pseudo_label": found.source.pseudo_label,
        }
        return StepOutput(found.probabilities, found.accepted, evidence)

    def predict(self, x: Tensor) -> Tensor:
        """Return the class probabilities of the student."""
        return self.engine.predict(to_device(x, self.device))

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue, as copies."""
        return {"generator": self.random_state.clone(), **self.engine.state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state of any engine."""
        self.engine.load_state_dict(state)
        self.random_state = state["generator"].cpu().clone()

    def _reset_student(self) -> None:
        config: CgsaConfig = self.config
        self.source_model = SourceModel.of(self.bundle, self.device)
        self.engine = make_engine(config.engine, self.source_model, lr=config.lr, capacity=config.queue)

    def _step(self, x: Tensor) -> StepOutput:
        return self.step_output(self.engine.run(self.algorithm_1, x, learn=True))

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return self.step_output(self.engine.run(self.algorithm_1, x, learn=False))
