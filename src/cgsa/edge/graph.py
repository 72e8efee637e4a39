"""A small way to write ONNX graphs: values with the operators of arrays.

Graphs compute in double precision. Trees compare features with thresholds, and a feature that differs in its last
digit may fall on the other side; in double precision that practically never happens. Weights stay in single precision
in the file, as in the bundle, and are converted when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

OPSET, IR_VERSION = 20, 10
"""Opset 20 has Fourier transforms along any axis; onnxruntime 1.18 and newer read both versions."""
LEAST_WEIGHTS = 64
"""Tables with at least this many numbers keep the precision of the bundle in the file."""

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class GraphValue:
    """A result within a graph."""

    graph: GraphBuilder
    name: str

    def __add__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("MatMul", self, other)

    def __gt__(self, other: GraphValue | float | Array | Tensor) -> GraphValue:
        return self.graph.op("Greater", self, other)

    def __neg__(self) -> GraphValue:
        return self.graph.op("Neg", self)

    def log(self) -> GraphValue:
        """Return the natural logarithm."""
        return self.graph.op("Log", self)

    def sqrt(self) -> GraphValue:
        """Return the square root."""
        return self.graph.op("Sqrt", self)

    def size(self) -> GraphValue:
        """Return the absolute value."""
        return self.graph.op("Abs", self)

    def at_least(self, least: float) -> GraphValue:
        """Return the values, none below ``least``."""
        return self.graph.op("Max", self, least)

    def maximum(self, other: GraphValue) -> GraphValue:
        """Return the larger of both values."""
        return self.graph.op("Max", self, other)

    def reduce(self, how: str, axis: int, *, keep: bool = False) -> GraphValue:
        """Return the ``Sum``, ``Mean``, ``Max`` or ``Min`` along an axis."""
        axes = self.graph.constant(np.array([axis], dtype=np.int64))
        return self.graph.op(f"Reduce{how}", self, axes, keepdims=int(keep))

    def mean(self, axis: int, *, keep: bool = False) -> GraphValue:
        """Return the mean along an axis."""
        return self.reduce("Mean", axis, keep=keep)

    def take(self, index: GraphValue | Array | Sequence[int], axis: int) -> GraphValue:
        """Return the elements at some places of an axis; the shape of ``index`` replaces the axis."""
        chosen = index if isinstance(index, GraphValue) else np.asarray(index, dtype=np.int64)
        return self.graph.op("Gather", self, chosen, axis=axis)

    def part(self, axis: int, first: int, end: int) -> GraphValue:
        """Return the elements from ``first`` to before ``end`` of an axis; ends count as in Python."""
        bounds = [np.array([number], dtype=np.int64) for number in (first, end, axis)]
        return self.graph.op("Slice", self, *bounds)

    def reshape(self, *shape: int) -> GraphValue:
        """Return the values in another shape; one dimension may be -1, and 0 keeps the one in its place."""
        return self.graph.op("Reshape", self, np.array(shape, dtype=np.int64))

    def transpose(self, *order: int) -> GraphValue:
        """Return the values with their axes in another order."""
        return self.graph.op("Transpose", self, perm=list(order))

    def flatten(self) -> GraphValue:
        """Return the values with all axes but the first as one."""
        return self.graph.op("Flatten", self, axis=1)

    def expand(self, axis: int) -> GraphValue:
        """Return the values with one more axis of length 1."""
        return self.graph.op("Unsqueeze", self, np.array([axis], dtype=np.int64))

    def to(self, kind: int) -> GraphValue:
        """Return the values as another type of ONNX."""
        return self.graph.op("Cast", self, to=kind)

    def length(self, axis: int) -> GraphValue:
        """Return the length of an axis, as a scalar."""
        shape = self.graph.op("Shape", self)
        return shape.take(np.array(axis), axis=0)


class GraphBuilder:
    """Collects the nodes and constants of one graph."""

    def __init__(self, names: count[int] | None = None) -> None:
        self._names = count() if names is None else names
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dimensions: int, kind: int = TensorProto.DOUBLE) -> GraphValue:
        """Declare an input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, [None] * dimensions))
        return GraphValue(self, name)

    def output(self, name: str, value: GraphValue, dimensions: int, kind: int = TensorProto.DOUBLE) -> None:
        """Declare an output."""
        self._nodes.append(helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, [None] * dimensions))

    def constant(self, value: float | Array | Tensor) -> GraphValue:
        """Return a constant; tables of floating-point numbers become double precision in the graph."""
        array = np.asarray(value.detach().cpu().numpy() if isinstance(value, Tensor) else value, order="C")
        if array.dtype == np.float32 and array.size >= LEAST_WEIGHTS:
            return self._stored(array).to(TensorProto.DOUBLE)
        return self._stored(array.astype(np.float64) if array.dtype.kind == "f" else array)

    def op(self, kind: str, *inputs: GraphValue | float | Array | Tensor | None, **attributes: Any) -> GraphValue:
        """Return the result of a node; None stands for an optional input that is left out."""
        names = ["" if one is None else self._value(one).name for one in inputs]
        name = self._fresh()
        self._nodes.append(helper.make_node(kind, names, [name], **attributes))
        return GraphValue(self, name)

    def concat(self, values: Sequence[GraphValue], axis: int) -> GraphValue:
        """Return values side by side."""
        return self.op("Concat", *values, axis=axis) if len(values) > 1 else values[0]

    def where(
        self, condition: GraphValue, yes: GraphValue | float | Array, no: GraphValue | float | Array
    ) -> GraphValue:
        """Return ``yes`` where the condition holds, and ``no`` elsewhere."""
        return self.op("Where", condition, yes, no)

    def numbers(self, count_: GraphValue) -> GraphValue:
        """Return the integers from 0 to before ``count_``."""
        return self.op("Range", np.array(0), count_, np.array(1))

    def loop(
        self,
        times: int,
        state: Sequence[GraphValue],
        dimensions: int,
        body: Callable[[Sequence[GraphValue]], Sequence[GraphValue]],
    ) -> list[GraphValue]:
        """Return the state after ``times`` applications of ``body``; states are in double precision."""
        inner = GraphBuilder(self._names)
        number, going = self._fresh(), self._fresh()
        inner._inputs.append(helper.make_tensor_value_info(number, TensorProto.INT64, []))
        inner._inputs.append(helper.make_tensor_value_info(going, TensorProto.BOOL, []))
        inside = []
        for _ in state:
            name = self._fresh()
            inner._inputs.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, [None] * dimensions))
            inside.append(GraphValue(inner, name))
        after = body(inside)
        inner.output(self._fresh(), GraphValue(inner, going), 0, TensorProto.BOOL)
        for value in after:
            inner.output(self._fresh(), value, dimensions)
        names = [self._fresh() for _ in state]
        inputs = [self.constant(np.array(times)).name, self.constant(np.array(True)).name, *(one.name for one in state)]
        self._nodes.append(helper.make_node("Loop", inputs, names, body=inner._proto("body")))
        return [GraphValue(self, name) for name in names]

    def to_bytes(self) -> bytes:
        """Return the model as the content of a file, once it is complete and valid."""
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(self._proto("cgsa"), opset_imports=opset, ir_version=IR_VERSION, producer_name="cgsa")
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _proto(self, name: str) -> onnx.GraphProto:
        return helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)

    def _value(self, given: GraphValue | float | Array | Tensor) -> GraphValue:
        return given if isinstance(given, GraphValue) else self.constant(given)

    def _stored(self, array: Array) -> GraphValue:
        name = self._fresh()
        self._constants.append(numpy_helper.from_array(array, name))
        return GraphValue(self, name)

    def _fresh(self) -> str:
        return f"v{next(self._names)}"
