from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cgsa.errors import BundleError
from cgsa.estimators.packing import pack, unpack
from cgsa.nn.bundle import TENSORS, ModelBundle
from tests.machines import bundle, ensemble_bundle


@pytest.mark.parametrize("make", [bundle, ensemble_bundle])
def test_a_packed_bundle_comes_back(make: Callable[[], ModelBundle]) -> None:
    original = make()
    found = unpack(pack(original))
    assert found.manifest == original.manifest
    for name, tensor in original.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor)


def test_damage_and_missing_parts_are_refused() -> None:
    packed = pack(bundle())
    with pytest.raises(BundleError, match="hash differs"):
        unpack({**packed, TENSORS: packed[TENSORS][:-1] + b"x"})
    with pytest.raises(BundleError, match="a packed bundle with nothing"):
        unpack({})
