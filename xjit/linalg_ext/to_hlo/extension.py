"""ByteIR's extension ops by their definitions (`xjit/linalg_ext/evaluation/extension_ops.py` has them in NumPy)."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ScatterAttributes, SortAttributes
from xjit.linalg_ext.ir.attributes import FloatAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, OpResult
from xjit.linalg_ext.structured import StructuredOp, structured
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.structured.view import attribute_integers
from xjit.linalg_ext.to_hlo.loops import while_loop
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope, captured_values
from xjit.linalg_ext.to_hlo.tensors import index_scalars
from xjit.linalg_ext.to_hlo.writer import FunctionWriter
from xjit.ops.build import make_binary_computation, make_reduce, pad

__all__ = ["EXTENSION_HANDLERS"]


def _operands(scope: Scope, operation: Operation) -> tuple[StructuredOp, list[HloInstruction]]:
    return structured(operation), [scope.array(v) for v in operation.operands]


def _reduced(
    writer: FunctionWriter, opcode: str, x: HloInstruction, axes: Sequence[int], start: float
) -> HloInstruction:
    kind = x.shape.element_type
    reducer = writer.module.add_embedded_computation(make_binary_computation(opcode, kind))
    return writer.add(make_reduce(x, writer.constant(start, kind), axes, reducer))


def _spread(writer: FunctionWriter, x: HloInstruction, like: HloInstruction, axes: Sequence[int]) -> HloInstruction:
    """Repeats an array along the dimensions `axes` that it has not."""
    kept = [i for i in range(like.shape.rank) if i not in axes]
    return writer.broadcast(x, like.shape.dimensions, kept)


def _softmax(scope: Scope, operation: Operation) -> list[Lowered]:
    op, (data, _, old_max, old_sum, _) = _operands(scope, operation)
    writer, axes = scope.writer, [axis_of(op)]
    new_max = writer.make("maximum", old_max, _reduced(writer, "maximum", data, axes, float("-inf")))
    shifted = writer.make("subtract", data, _spread(writer, new_max, data, axes))
    weights = writer.make("exponential", shifted)
    kept = writer.make("exponential", writer.make("subtract", old_max, new_max))
    nothing = writer.compare("EQ", old_sum, writer.like(old_sum, 0))
    carried = writer.make("select", nothing, old_sum, writer.make("multiply", old_sum, kept))
    new_sum = writer.make("add", carried, _reduced(writer, "add", weights, axes, 0))
    output = writer.make("divide", weights, _spread(writer, new_sum, data, axes))
    return [output, new_max, new_sum, writer.make("divide", carried, new_sum)]


def _plain_softmax(scope: Scope, operation: Operation) -> list[Lowered]:
    op, (data, _) = _operands(scope, operation)
    writer, axes = scope.writer, [axis_of(op)]
    largest = _reduced(writer, "maximum", data, axes, float("-inf"))
    weights = writer.make("exponential", writer.make("subtract", data, _spread(writer, largest, data, axes)))
    return [writer.make("divide", weights, _spread(writer, _reduced(writer, "add", weights, axes, 0), data, axes))]


def _scan(scope: Scope, operation: Operation) -> list[Lowered]:
    """One line after the other."""
    op, (data, output, total) = _operands(scope, operation)
    axis, sizes = axis_of(op), data.shape.dimensions
    inclusive = bool(getattr(operation.attributes.get("inclusive"), "value", True))
    thin = [1 if i == axis else n for i, n in enumerate(sizes)]

    def step(body: Scope, counter: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        writer = body.writer
        source, written, before = state
        at = index_scalars(writer, [counter if i == axis else 0 for i in range(len(sizes))])
        element = writer.reshape(writer.dynamic_slice(source, at, thin), before.shape.dimensions)
        [combined] = body.run(op.body, [before, element])
        after = writer.shaped_alike(body.materialized(combined, op.yielded[0]), before)[0]
        line = writer.reshape(after if inclusive else before, thin)
        return [source, writer.make("dynamic-update-slice", written, line, *at), after]

    return list(while_loop(scope, operation, (0, sizes[axis], 1), [data, output, total], step)[1:])


def _scalar_computation(scope: Scope, op: StructuredOp, order: Sequence[int], name: str) -> HloComputation:
    """The region as a computation on scalars: its argument i is parameter `order[i]`; others are not used."""
    inner = scope.inner(name)
    for value in captured_values(op.operation, scope):
        if not isinstance(value, OpResult) or value.owner.name != "arith.constant":
            message = f"cannot compile '{op.operation.name}': its region uses values from outside"
            raise LinalgError(message, op.operation.location)
        inner.values[value] = inner.program.handlers["arith.constant"](inner, value.owner)[0]
    types = [scope.array(v).shape.element_type for v in op.inits]
    parameters = [inner.writer.parameter(i, Shape.array(types[i // 2 % len(types)], ())) for i in range(2 * len(types))]
    [result] = inner.run(op.body, [parameters[i] for i in order])
    return inner.writer.finish(inner.materialized(result, op.yielded[0]))


def _scatter(scope: Scope, operation: Operation) -> list[Lowered]:
    """Batches are done in row-major order; an index outside of the source is skipped."""
    op, (indices, updates, source) = _operands(scope, operation)
    batch = indices.shape.rank - 1
    depth = tuple(range(indices.shape.dimensions[-1]))
    attributes = ScatterAttributes(
        update_window_dims=tuple(range(batch, updates.shape.rank)),
        inserted_window_dims=depth,
        scatter_dims_to_operand_dims=depth,
        index_vector_dim=batch,
    )
    combiner = _scalar_computation(scope, op, (0, 1), "combiner")
    return [scope.writer.make("scatter", source, indices, updates, attributes=attributes, called=[combiner])]


def _topk(scope: Scope, operation: Operation) -> list[Lowered]:
    """A stable sort of the elements of the inits and then of the input; empty inits have none."""
    op, operands = _operands(scope, operation)
    writer, axis = scope.writer, axis_of(op)
    count = operands[-2].shape.dimensions[axis]
    data = operands[0]
    kind = operands[-1].shape.element_type
    numbers = operands[1] if len(op.inputs) == 2 else writer.iota(kind, data.shape.dimensions, axis)
    values = op.inits[0]
    if not (isinstance(values, OpResult) and values.owner.name == "tensor.empty"):
        data = writer.concatenate([operands[-2], data], axis)
        numbers = writer.concatenate([operands[-1], numbers], axis)
    order = _scalar_computation(scope, op, (0, 1), "is_before")
    attributes = SortAttributes((axis,), is_stable=True)
    both = writer.make("sort", data, numbers, attributes=attributes, called=[order])
    return [_first(writer, writer.element(both, i), axis, count) for i in range(2)]


def _first(writer: FunctionWriter, x: HloInstruction, axis: int, count: int) -> HloInstruction:
    """The first `count` elements along a dimension, and anything where there are not so many."""
    missing = count - x.shape.dimensions[axis]
    edges = [(0, missing if i == axis else 0, 0) for i in range(x.shape.rank)]
    return writer.add(pad(x, writer.constant(0, x.shape.element_type), edges)) if missing else x


def _diag(scope: Scope, operation: Operation) -> list[Lowered]:
    _, (data, matrices) = _operands(scope, operation)
    writer, sizes = scope.writer, matrices.shape.dimensions
    rank = len(sizes)
    row, column = (writer.iota(PrimitiveType.S64, sizes, rank - i) for i in (2, 1))
    values = writer.broadcast(data, sizes, range(rank - 1))
    return [writer.make("select", writer.compare("EQ", row, column), values, writer.like(values, 0))]


def _layer_norm(scope: Scope, operation: Operation) -> list[Lowered]:
    """Narrow types are computed in f32."""
    op, operands = _operands(scope, operation)
    writer, axes = scope.writer, attribute_integers(operation, "axis")
    epsilon = operation.attributes.get("epsilon")
    if not isinstance(epsilon, FloatAttr):
        raise op.error(f"expects a float as attribute 'epsilon', found {epsilon}")
    kind = operands[0].shape.element_type
    wide = [writer.convert(x, max(kind, PrimitiveType.F32, key=lambda t: t.bit_width)) for x in operands]
    data, count = wide[0], 1
    for axis in axes:
        count *= data.shape.dimensions[axis]

    def mean_of(x: HloInstruction) -> HloInstruction:
        total = _reduced(writer, "add", x, axes, 0)
        return writer.make("divide", total, writer.like(total, count))

    mean = mean_of(data)
    centered = writer.make("subtract", data, _spread(writer, mean, data, axes))
    variance = mean_of(writer.make("multiply", centered, centered))
    reciprocal = writer.make("rsqrt", writer.make("add", variance, writer.like(variance, epsilon.value)))
    output = writer.make("multiply", centered, _spread(writer, reciprocal, data, axes))
    if len(op.inputs) == 3:
        weight, bias = (writer.broadcast(x, data.shape.dimensions, axes) for x in wide[1:3])
        output = writer.make("add", writer.make("multiply", output, weight), bias)
    return [writer.convert(x, kind) for x in (output, mean, reciprocal)[: len(op.inits)]]


def _custom(scope: Scope, operation: Operation) -> list[Lowered]:
    return scope.run(operation.body, [scope.values[v] for v in operation.operands])


EXTENSION_HANDLERS: dict[str, Handler] = {
    "linalg.softmax": _plain_softmax,
    "linalg_ext.softmax": _softmax,
    "linalg_ext.scan": _scan,
    "linalg_ext.scatter": _scatter,
    "linalg_ext.topk": _topk,
    "linalg_ext.diag": _diag,
    "linalg_ext.layer_norm": _layer_norm,
    "linalg_ext.custom": _custom,
}
