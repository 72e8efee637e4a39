from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.reference import SHARPNESS, median_reference
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY, Reference
from tests.machines import RATE, SPEC, bundle, manifest

WANTED = 10
SETTINGS = {"commission_seconds": WANTED * SPEC.step / RATE}


def windows(count: int, level: float = 0.0, seed: int = 0) -> torch.Tensor:
    return level + 0.1 * torch.randn(count, 2, SPEC.length, generator=torch.Generator().manual_seed(seed))


def distances(source: ModelBundle, x: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    known, _ = source.require_known()
    inputs = source.network.inputs(x, reference)
    distance: torch.Tensor = known(inputs, source.network.F(inputs))
    return distance


def test_the_reference_is_that_of_the_first_windows_however_they_come() -> None:
    x = windows(24, level=0.5)
    source = bundle()
    wanted = median_reference(source.network.frontend(x[:WANTED]))
    for sizes in ([24], [4, 4, 4, 12], [1] * 24):
        method = Reference(source, SETTINGS)
        accepted = torch.cat([method.step(part).accepted for part in x.split(sizes)])  # type: ignore[misc, no-untyped-call]
        torch.testing.assert_close(method.state_dict()["memory.reference"], wanted)
        assert accepted.tolist() == [True] * WANTED + [False] * 14


def test_an_unfamiliar_machine_uses_only_its_own_reference() -> None:
    source = bundle()
    method = Reference(source, SETTINGS)
    first = method.step(windows(WANTED, level=9.0))
    assert not first.evidence["ready"].any()
    assert not method.state_dict()["memory.familiar"]
    x = windows(6, level=9.2, seed=1)
    output = method.step(x)
    assert output.evidence["ready"].all()
    reference = method.state_dict()["memory.reference"]
    torch.testing.assert_close(output.probabilities, torch.softmax(source.network(x, reference), dim=1))
    torch.testing.assert_close(output.evidence["distance"], distances(source, x, reference))


def test_a_familiar_machine_uses_both_references_weighted_by_distance() -> None:
    source = bundle()
    method = Reference(source, SETTINGS)
    method.step(windows(WANTED, level=0.5))
    assert method.state_dict()["memory.familiar"]
    for level in (0.5, 0.25, 0.0, -2.0):
        x = windows(6, level=level, seed=1)
        output = method.step(x)
        references = (method.state_dict()["memory.reference"], source.require_reference())
        own, general = (torch.softmax(source.network(x, reference), dim=1) for reference in references)
        near, far = (distances(source, x, reference) for reference in references)
        share = 1 / (1 + (near / far) ** SHARPNESS)
        torch.testing.assert_close(output.probabilities, own * share[:, None] + general * (1 - share[:, None]))
        torch.testing.assert_close(output.evidence["distance"], near * share + far * (1 - share))


def test_later_windows_do_not_change_the_reference() -> None:
    """A slow fault and a manipulated interval leave the method unchanged."""
    method = Reference(bundle(), SETTINGS)
    method.step(windows(WANTED))
    before = method.state_dict()
    for step in range(20):
        method.step(windows(8, level=0.2 * step, seed=step))
    after = method.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_span_with_a_change_of_condition_is_rejected() -> None:
    source = bundle()
    method = Reference(source, SETTINGS)
    jump = torch.cat([windows(WANTED // 2, level=-40.0), windows(WANTED - WANTED // 2, level=40.0, seed=1)])
    method.step(jump)
    assert not method.state_dict()["memory.commissioned"]
    steady = windows(2 * WANTED, level=40.0, seed=2)
    method.step(steady)
    method.step(steady)
    assert method.state_dict()["memory.commissioned"]
    torch.testing.assert_close(
        method.state_dict()["memory.reference"], source.network.frontend(steady).median(dim=0).values, rtol=0, atol=0.2
    )


def test_models_without_a_reference_are_refused() -> None:
    plain = ModelBundle(manifest(), replace(bundle()).network, None)
    with pytest.raises(BundleError, match=r"train\.calibrate"):
        Reference(plain)
    with pytest.raises(ConfigError, match="commission_seconds 0"):
        Reference(bundle(), {"commission_seconds": 0.0})


def test_every_window_has_a_reason() -> None:
    method = Reference(bundle(), SETTINGS)
    reasons = []
    for x in windows(24, level=0.5).split([12, 12]):  # type: ignore[no-untyped-call]
        code, texts = method.reasons(method.step(x))
        reasons += [texts[number] for number in code.tolist()]
    assert reasons == [IN_HEALTHY_SPAN] * WANTED + [BEFORE_REFERENCE] * 2 + [REFERENCE_READY] * 12
