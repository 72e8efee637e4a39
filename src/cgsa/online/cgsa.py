"""CGSA: condition-guided selective adaptation, the online stage (Algorithm 1).

J. Liu, Z. Liu, H. Zhao, P. Han and X. He, "Fault Diagnosis of Dynamic Systems
Under Unknown Operating Conditions: A Condition-Guided Selective Adaptation
Approach".
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.data.windows import to_device, underlying_samples
from cgsa.engines.chain import LearningChain
from cgsa.engines.first_layer import BatchView, ExactLayer, FrozenLayer, LearningLayer, first_layer, slides
from cgsa.engines.graph import can_compile
from cgsa.engines.students import Students, Workspace
from cgsa.errors import ConfigError
from cgsa.nn.optim import make_adam
from cgsa.online.adapting import AdaptingMethod
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.evidence import split_by_condition
from cgsa.online.gate import ReliabilityGate


@dataclass(frozen=True)
class CgsaConfig(MethodConfig):
    """Settings of the online stage, as in section III-A3 of the paper."""

    lr: float = 5e-4
    """eta, the learning rate of Adam."""
    queue: int = 50
    """W, responses in the queue."""
    tau: float = 0.05
    """tau_mu, the largest deviation of a consistent window."""
    min_confidence: float = 0.9
    """epsilon_p, the least confidence of a pseudo-label."""
    by_confidence: bool = True
    """Confidence filtering; false gives the ablation CAL+RCG."""
    by_residual: bool = True
    """Residual condition guidance; false gives the ablation CAL+CF."""
    engine: Literal["auto", "float32", "mixed", "graph"] = "auto"
    """How the student is computed: in single precision (``float32``), a large first layer sliding over windows that
    share samples, all others bit for bit; with gradients of weights in sixteen bits (``mixed``); on a GPU, as one
    recorded graph in TF32 (``graph``). ``auto`` is graph on a GPU and float32 on a CPU."""

    def __post_init__(self) -> None:
        if self.queue < 1 or self.lr <= 0 or self.tau <= 0 or not 0 <= self.min_confidence < 1:
            raise ConfigError(
                f"queue {self.queue}, lr {self.lr:g}, tau {self.tau:g}, min_confidence {self.min_confidence:g}; "
                f"expected queue >= 1, lr > 0, tau > 0 and 0 <= min_confidence < 1"
            )


class Cgsa(AdaptingMethod):
    """A student learns the frozen source model's labels of windows whose residual response is steady."""

    Config: ClassVar[type[MethodConfig]] = CgsaConfig
    summary: ClassVar[str] = "the paper: student updated on windows chosen by residual condition and confidence"
    needs: ClassVar[frozenset[str]] = frozenset({"discriminator"})
    source_labels: ClassVar[str | None] = "pseudo_label"

    def start(self) -> None:
        """Freeze F_P, G_P, D_P, copy the student F_S, G_S from them and empty the queue."""
        self.frozen = self.copy_network(trainable=False)
        discriminator = deepcopy(self.bundle.require_discriminator())
        self._discriminator = discriminator.to(self.device).eval().requires_grad_(requires_grad=False)
        self.conditions = [condition.name for condition in self.bundle.manifest.conditions]
        self._gate = ReliabilityGate(
            self.config.queue,
            self.config.tau,
            self.config.min_confidence,
            by_residual=self.config.by_residual,
            by_confidence=self.config.by_confidence,
        )
        self._students: Students | None = None
        self._resting: FrozenLayer | None = None
        """The student's first layer in the form of one that does not change, while it does not."""
        if self.engine == "graph":
            self._students = self.more_students(1)
            return
        self._student = self.copy_network(trainable=True)
        self._first = FrozenLayer(self.frozen, self.bundle.manifest.window)
        mixed = self.config.engine == "mixed"
        self._chain = LearningChain(self._student, self._first_of_student(), skip=mixed, sixteen_bits=mixed)
        self.networks = {"student": self._student}
        self.optimizers = {"student": make_adam(self._student.parameters(), self.config.lr)}
        self.memory = {"queue": torch.empty(0, len(self.conditions), dtype=torch.float64, device=self.device)}

    @property
    def engine(self) -> str:
        """How the student is computed on this device."""
        on_gpu, chosen = self.device.type == "cuda", str(self.config.engine)
        if chosen == "auto":
            return "graph" if on_gpu and can_compile() else "float32"
        if chosen == "graph" and on_gpu and not can_compile():
            raise ConfigError("engine graph needs triton, which comes with PyTorch for CUDA on Linux; take float32")
        return chosen

    def more_students(self, count: int, workspace: Workspace | None = None) -> Students:
        """Return students of the frozen model for so many machines, each as if it were alone."""
        return Students(
            self.frozen,
            self._discriminator,
            self._gate,
            self.config.lr,
            conditions=len(self.conditions),
            count=count,
            workspace=workspace,
        )

    def _first_of_student(self) -> LearningLayer:
        layer = first_layer(self._student)
        if not slides(self._student, self.bundle.manifest.window):
            return ExactLayer(layer)
        # Its compiler takes a second to load, which nobody else should wait for.
        from cgsa.engines.sliding_layer import SlidingLayer  # noqa: PLC0415

        return SlidingLayer(layer)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the student's class probabilities."""
        x = to_device(x, self.device)
        if self._students is not None:
            return self._students.predict(*_as_shared(x))[0]
        sight = BatchView(self.frozen, x)
        return torch.softmax(self._chain.forward(sight), dim=1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return student, optimiser and queue, as copies."""
        state = super().state_dict()
        return state if self._students is None else state | self._students.state_dict(0)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        if self._students is not None:
            self._students.load_state_dict(0, state)
            return
        super().load_state_dict(state)
        self._resting = None

    def _step(self, x: Tensor) -> StepOutput:
        if self._students is not None:
            return self._students.step(*_as_shared(x)).of(0, self.conditions)
        return self._diagnose(x, learns=True)

    def _step_without_learning(self, x: Tensor) -> StepOutput:
        return super()._step_without_learning(x) if self._students is not None else self._diagnose(x, learns=False)

    def _diagnose(self, x: Tensor, *, learns: bool) -> StepOutput:
        # Front-ends do not learn, so both networks see the same.
        sight = BatchView(self.frozen, x)
        frozen, first = self._first.forward_beside(self._chain.first, sight)
        if first is None and not learns:
            first = self._at_rest(sight)

        # Eq. (5): what the student says of the windows.
        scores = self._chain.forward(sight, first).requires_grad_()
        probabilities = torch.softmax(scores.detach(), dim=1)

        # Eqs. (6) to (8): pseudo-label, confidence and residual response of the frozen source model.
        with torch.no_grad():
            features = self.frozen.F[1:](frozen)
            confidence, pseudo_label = torch.softmax(self.frozen.classify(features), dim=1).max(dim=1)
            response = self._discriminator.response(features)

        # Eqs. (9) to (11): which windows are reliable.
        selection, queue = self._gate.select(self.memory["queue"], response, confidence)
        accepted = selection.accepted if learns else torch.zeros_like(selection.accepted)
        if learns:
            self.memory["queue"] = queue

        # Eqs. (12) and (13): one step on the reliable windows; none where there are none.
        if bool(accepted.any()):
            loss = cross_entropy(scores[accepted], pseudo_label[accepted])
            self._chain.learn(self.optimizers["student"], torch.autograd.grad(loss, scores)[0], accepted)
            self._resting = None

        evidence = {
            **split_by_condition("response", self.conditions, response),
            **split_by_condition("queue_mean", self.conditions, selection.queue_mean),
            "deviation": selection.deviation,
            "confidence": confidence,
            "pseudo_label": pseudo_label,
        }
        return StepOutput(probabilities, accepted, evidence)

    def _at_rest(self, sight: BatchView) -> Tensor:
        """Return what the student's first layer makes of windows; while it does not learn, it slides, too."""
        if self._resting is None:
            self._resting = FrozenLayer(self._student, self.bundle.manifest.window)
        return self._resting.forward(sight)


def _as_shared(x: Tensor) -> tuple[Tensor, int]:
    """Return the samples that windows of one machine share, with their step, or the windows and 0."""
    shared = underlying_samples(x)
    return (x[None], 0) if shared is None else (shared[0][None], shared[1])
