"""The contract of an online method, as runnable checks.

Every registered method passes them, and so should yours::

    from cgsa.online.checks import check_method
    check_method(MyMethod, bundle)

Each check takes a factory that makes a fresh method and batches of windows that
fit the bundle. A violation raises ``AssertionError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor

from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import OnlineMethod

Make = Callable[[], OnlineMethod]


def check_method(method: type[OnlineMethod], bundle: ModelBundle, settings: Mapping[str, object] | None = None) -> None:
    """Run all checks on ``method`` with ``bundle``."""
    batches = example_batches(bundle)
    for check in CHECKS:
        check(lambda: method(bundle, settings, seed=3), batches)


def example_batches(bundle: ModelBundle, count: int = 6, size: int = 32) -> list[Tensor]:
    """Return batches of random windows that fit the bundle; their level changes halfway."""
    generator = torch.Generator().manual_seed(7)
    shape = (size, len(bundle.manifest.channels), bundle.manifest.window.length)
    level = [1.0 if number < count // 2 else 2.5 for number in range(count)]
    return [factor * torch.randn(shape, generator=generator) for factor in level]


def check_predicts_before_learning(make: Make, batches: list[Tensor]) -> None:
    """The probabilities of a step are those of the model before the step."""
    method = make()
    for x in batches:
        before = method.predict(x)
        torch.testing.assert_close(method.step(x).probabilities, before, rtol=0, atol=1e-6)


def check_probabilities(make: Make, batches: list[Tensor]) -> None:
    """Every window gets one probability per class, and they sum to one."""
    method = make()
    for x in batches:
        output = method.step(x)
        expected = (len(x), len(method.bundle.manifest.classes))
        _require(output.probabilities.shape == expected, "one probability per window and class")
        torch.testing.assert_close(output.probabilities.sum(dim=1), torch.ones(len(x)))
        for name, values in output.evidence.items():
            _require(values.shape == (len(x),), f"evidence {name!r} has one number per window")
        if output.accepted is not None:
            _require(output.accepted.shape == (len(x),) and output.accepted.dtype == torch.bool, "one flag per window")


def check_predict_is_pure(make: Make, batches: list[Tensor]) -> None:
    """Predicting changes nothing."""
    method = make()
    method.step(batches[0])
    before = method.state_dict()
    first = method.predict(batches[1])
    _require(_same(first, method.predict(batches[1])), "predict gives the same result twice")
    _require(_same_state(before, method.state_dict()), "predict leaves the state unchanged")


def check_step_without_learning(make: Make, batches: list[Tensor]) -> None:
    """A step without learning gives the diagnosis of a step and changes nothing."""
    method = make()
    method.step(batches[0])
    for x in batches[1:]:
        before = method.state_dict()
        diagnosed = method.step(x, learn=False)
        _require(_same_state(before, method.state_dict()), "a step without learning leaves the state unchanged")
        _require(diagnosed.accepted is None or not bool(diagnosed.accepted.any()), "such a step accepts no window")
        learnt = method.step(x)
        torch.testing.assert_close(diagnosed.probabilities, learnt.probabilities, rtol=0, atol=1e-6)
        for name, values in diagnosed.evidence.items():
            _require(
                name in learnt.evidence and _same(values, learnt.evidence[name]), f"both steps give the same {name!r}"
            )


def check_deterministic(make: Make, batches: list[Tensor]) -> None:
    """Two methods with the same seed give bit-identical results on the same stream."""
    first, second = make(), make()
    for x in batches:
        _require(_same(first.step(x).probabilities, second.step(x).probabilities), "same seed, same probabilities")
    _require(_same_state(first.state_dict(), second.state_dict()), "same seed, same state")


def check_resumes(make: Make, batches: list[Tensor]) -> None:
    """A fresh method resumes from a state of any time in the stream with bit-identical results."""
    for cut in range(len(batches)):
        whole, part = make(), make()
        for x in batches[:cut]:
            whole.step(x)
            part.step(x)
        resumed = make()
        resumed.step(batches[-1])  # the loaded state must replace everything learnt before
        resumed.load_state_dict(part.state_dict())
        for x in batches[cut:]:
            _require(_same(whole.step(x).probabilities, resumed.step(x).probabilities), f"resumes after {cut} batches")
        _require(_same_state(whole.state_dict(), resumed.state_dict()), f"same state when resumed after {cut} batches")


def check_state_is_a_copy(make: Make, batches: list[Tensor]) -> None:
    """A state does not change when its method takes further steps."""
    method = make()
    method.step(batches[0])
    state = method.state_dict()
    kept = deepcopy(state)
    for x in batches[1:]:
        method.step(x)
    _require(_same_state(state, kept), "the state is a copy")


def check_reset(make: Make, batches: list[Tensor]) -> None:
    """After a reset the method behaves like a new one."""
    method = make()
    fresh = [method.step(x).probabilities for x in batches]
    method.reset()
    again = [method.step(x).probabilities for x in batches]
    _require(all(_same(a, b) for a, b in zip(fresh, again, strict=True)), "reset returns to the start")


def check_batch_of_one(make: Make, batches: list[Tensor]) -> None:
    """A batch may contain a single window."""
    method = make()
    for window in batches[0]:
        output = method.step(window[None])
        _require(bool(torch.isfinite(output.probabilities).all()), "a single window gets finite probabilities")


def check_constant_input(make: Make, batches: list[Tensor]) -> None:
    """Constant windows do not lead to NaN."""
    for constant in (0.0, 1.0, -3.0):
        method = make()
        for x in batches:
            method.step(torch.full_like(x, constant))
        _require(
            bool(torch.isfinite(method.predict(batches[0])).all()), f"the model stays finite after constant {constant}"
        )


def check_refuses_bad_input(make: Make, batches: list[Tensor]) -> None:
    """NaN, infinity and wrong shapes raise and leave the state unchanged."""
    method = make()
    method.step(batches[0])
    before = method.state_dict()
    for bad in (batches[0] * torch.nan, batches[0] * torch.inf, batches[0][:, :1], batches[0][0], batches[0][:0]):
        refused = False
        try:
            method.step(bad)
        except Exception:
            refused = True
        _require(refused, f"an unusable batch of shape {tuple(bad.shape)} is refused")
    _require(_same_state(before, method.state_dict()), "refused input leaves the state unchanged")


def check_source_model_untouched(make: Make, batches: list[Tensor]) -> None:
    """No method changes the bundle, which many methods share."""
    method = make()
    before = deepcopy(method.bundle.model.state_dict())
    for x in batches:
        method.step(x)
    _require(_same_state(before, method.bundle.model.state_dict()), "the bundle stays unchanged")


def check_no_global_effects(make: Make, batches: list[Tensor]) -> None:
    """No method uses or changes global state such as the global random generator."""
    before = (torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
    method = make()
    for x in batches:
        method.step(x)
    after = (torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
    _require(_same(before[0], after[0]) and before[1:] == after[1:], "global state stays unchanged")


CHECKS: tuple[Callable[[Make, list[Tensor]], None], ...] = (
    check_predicts_before_learning,
    check_probabilities,
    check_predict_is_pure,
    check_step_without_learning,
    check_deterministic,
    check_resumes,
    check_state_is_a_copy,
    check_reset,
    check_batch_of_one,
    check_constant_input,
    check_refuses_bad_input,
    check_source_model_untouched,
    check_no_global_effects,
)


def _require(holds: object, promise: str) -> None:
    if not holds:
        raise AssertionError(f"contract violated: {promise}")


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _same_state(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
