"""What evaluating an instruction costs at compile time, in elementary operations of about 20 ns.

The evaluator works on whole arrays: an instruction of what is applied to elements costs a call per step, whatever the
arrays' size. These are upper bounds, as a folding must not take seconds, whatever the values are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from xjit.hlo import HloComputation, HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.ops.sort_keys import key_order

_CALL = 4096
"""One instruction on small arrays inside of a computation that is applied: some 80 microseconds."""

_PRODUCTS = 8
"""Multiplications with additions in the time of one operation: those of matrices are a library's."""

_MOVES = frozenset(
    {"reshape", "transpose", "reverse", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad"}
    | {"gather"}
)
"""What costs an operation per element, as all elementwise opcodes do, too."""


_FREE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


def folding_cost(instruction: HloInstruction, interpreter: Interpreter) -> int | None:
    """Returns the cost; None for what is not folded.

    Broadcasts and iotas would only grow; random numbers, what devices exchange and what has an effect is none of the
    compiler's; loops may take as long as they like, and FFTs longer than a library does.
    """
    rule = _COSTS.get(instruction.opcode)
    if rule is not None:
        cost = rule(instruction, interpreter)
        return int(cost) if math.isfinite(cost) else None
    if instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in _MOVES:
        return _elements(instruction)
    return None


def elements_of(shape: Shape) -> int:
    """Returns the elements of all arrays of a shape."""
    return sum(leaf.num_elements for _, leaf in shape.leaves())


def _elements(instruction: HloInstruction) -> int:
    return max([elements_of(instruction.shape), *(elements_of(o.shape) for o in instruction.operands)])


def _applied(computation: HloComputation, interpreter: Interpreter, calls: float, lanes: float) -> float:
    """The cost of calls of a computation on scalars, each on so many elements at a time."""
    if not interpreter.is_elementwise(computation):
        calls, lanes = calls * lanes, 1
    return calls * computation.instruction_count * (_CALL + lanes)


def _called(instruction: HloInstruction, interpreter: Interpreter) -> float:
    """The cost of all that a call or a fusion runs; infinite if it runs something that is not folded."""
    total = 0.0
    for called in instruction.called_computations:
        for inner in called.instructions:
            if inner.opcode not in _FREE:
                cost = _elements(inner) if inner.opcode in ("broadcast", "iota") else folding_cost(inner, interpreter)
                if cost is None:
                    return math.inf
                total += cost
    return total


def _dot(dot: HloInstruction, _: Interpreter) -> float:
    lhs = dot.operand(0).shape
    depth = math.prod(lhs.dimensions[d] for d in dot.attributes_as(at.DotAttributes).lhs_contracting_dims)
    return max(_elements(dot), dot.shape.num_elements * depth / _PRODUCTS)


def _convolution(convolution: HloInstruction, _: Interpreter) -> float:
    attributes = convolution.attributes_as(at.ConvolutionAttributes)
    kernel, labels = convolution.operand(1).shape, attributes.dim_labels
    window = math.prod(d.size for d in attributes.window.dimensions)
    outputs = math.prod(convolution.shape.dimensions[d] for d in labels.output_spatial_dimensions)
    depth = window * kernel.dimensions[labels.kernel_input_feature_dimension]
    padded = _padded_elements(convolution.operand(0).shape, labels.input_spatial_dimensions, attributes.window)
    products = convolution.shape.num_elements * depth / _PRODUCTS
    return max(_elements(convolution), products, padded) + min(window, outputs) * _CALL / 2


def _padded_elements(shape: Shape, spatial: tuple[int, ...], window: at.Window) -> int:
    """Elements of an array with the padding and the holes that a window asks for."""
    sizes = list(shape.dimensions)
    for d, w in zip(spatial, window.dimensions, strict=True):
        sizes[d] = max(0, (sizes[d] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high)
    return math.prod(sizes)


def _reduce(reduce: HloInstruction, interpreter: Interpreter) -> float:
    elements = _elements(reduce)
    if reduce.operand_count == 2 and simple_opcode(reduce.to_apply) is not None:
        return 2 * elements
    rounds = max(elements, 1).bit_length() + 1
    return _applied(reduce.to_apply, interpreter, rounds, 2 * elements / rounds)


def _reduce_window(reduce: HloInstruction, interpreter: Interpreter) -> float:
    window = reduce.attributes_as(at.WindowAttributes).window
    source = reduce.operand(0).shape
    lanes = elements_of(reduce.shape)
    return _applied_in_window(reduce.to_apply, interpreter, window, lanes) + _padded_elements(
        source, tuple(range(source.rank)), window
    )


def _applied_in_window(computation: HloComputation, interpreter: Interpreter, window: at.Window, lanes: int) -> float:
    return _applied(computation, interpreter, math.prod(d.size for d in window.dimensions), lanes)


def _select_and_scatter(instruction: HloInstruction, interpreter: Interpreter) -> float:
    window = instruction.attributes_as(at.WindowAttributes).window
    lanes = instruction.operand(1).shape.num_elements
    both = (_applied_in_window(c, interpreter, window, lanes) for c in instruction.called_computations)
    return _elements(instruction) + sum(both)  # an element is chosen by no more windows than a window has elements


def _scatter(scatter: HloInstruction, interpreter: Interpreter) -> float:
    """Updates of one element go one after the other."""
    updates = scatter.operand(scatter.operand_count // 2 + 1).shape.num_elements
    rounds = 1 if scatter.attributes_as(at.ScatterAttributes).unique_indices else updates
    if scatter.operand_count == 3 and simple_opcode(scatter.to_apply) in ("add", "multiply"):
        rounds = 0  # in one step
    lanes = updates / max(rounds, 1)
    return _elements(scatter) + 4 * updates + _applied(scatter.to_apply, interpreter, rounds, lanes)


def _sort(sort: HloInstruction, interpreter: Interpreter) -> float:
    """A comparator that may contradict itself merges by one element at a time."""
    (dimension,) = sort.attributes_as(at.SortAttributes).dimensions
    shape, order = sort.operand(0).shape, key_order(sort.to_apply)
    length = shape.dimensions[dimension]
    levels = max(length, 1).bit_length()
    steps, lanes = length * levels, shape.num_elements / max(length, 1)
    if order is not None and (order.total or not order.kind.is_float):
        steps, lanes = levels * (levels + 1) // 2, shape.num_elements
    return _elements(sort) + _applied(sort.to_apply, interpreter, steps, lanes)


def _map(instruction: HloInstruction, interpreter: Interpreter) -> float:
    return _applied(instruction.to_apply, interpreter, 1, _elements(instruction))


def _topk(topk: HloInstruction, _: Interpreter) -> float:
    elements = _elements(topk)
    return elements * max(elements, 1).bit_length()


_COSTS: Mapping[str, Callable[[HloInstruction, Interpreter], float]] = {
    "call": _called,
    "fusion": _called,
    "dot": _dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _topk,
    "map": _map,
}
