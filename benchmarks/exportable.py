"""Can the ensemble of a bundle be exported to ONNX? Its operations, those that ONNX lacks, and its size.

    python -m benchmarks.exportable runs/realtime/limerick_motor

The script traces the whole model of a bundle, from raw windows to class scores, with ``torch.export``. ONNX has no
decomposition of Hermitian matrices and no arithmetic of complex numbers: the operations that need them are listed. If
the package onnx is installed, the script also tries to export the model.
"""

from __future__ import annotations

import argparse
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from cgsa.nn.bundle import ModelBundle

LACKING = ("linalg_eigh",)
"""Operations that ONNX has no counterpart of."""
WINDOWS = 8


def operations(model: nn.Module, x: Tensor) -> tuple[Counter[str], Counter[str]]:
    """Return how often each operation is in the graph of a model, and the same of those that ONNX lacks."""
    every: Counter[str] = Counter()
    lacking: Counter[str] = Counter()
    with torch.no_grad():
        graph = torch.export.export(model, (x,), strict=False).graph
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        every[name] += 1
        values = tree_leaves([node.meta.get("val"), [one.meta.get("val") for one in node.all_input_nodes]])
        if name in LACKING or any(isinstance(value, Tensor) and value.is_complex() for value in values):
            lacking[name] += 1
    return every, lacking


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    bundle = ModelBundle.load(options.model)
    manifest, ensemble = bundle.manifest, bundle.require_ensemble().eval()
    x = torch.randn(WINDOWS, len(manifest.channels), manifest.window.length)
    every, lacking = operations(ensemble, x)
    print(f"{sum(every.values())} operations, {len(every)} different ones")
    print("with complex numbers, or lacking in ONNX:", ", ".join(f"{name} x {n}" for name, n in lacking.most_common()))
    for name, module in (("ensemble", ensemble), ("checks", bundle.known)):
        if module is not None:
            tensors = module.state_dict().values()
            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            print(f"{name}: {sum(tensor.numel() for tensor in tensors):,} numbers, {size / 1e6:.1f} MB")
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        print("onnx and onnxscript are not installed: nothing was exported")
        return
    torch.onnx.export(ensemble, (x,), options.model / "model.onnx", dynamo=True)
    print(f"exported: {options.model / 'model.onnx'}")


if __name__ == "__main__":
    main()
