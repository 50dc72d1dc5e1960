"""reduce, map, scan, and the folding that windows and scatters share.

A reducer that is one add, multiply, maximum, minimum, and, or, xor runs as a NumPy reduction; sums of floats are
accumulated in f64, products in f32 or f64, and narrow floats are rounded once at the end. Any other reducer folds
neighbouring elements pairwise, in order, and meets the initial value first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.hlo.attributes import DimensionsAttributes, ParameterAttributes, ScanAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.elementwise import apply
from xjit.ops.evaluation.numerics import Array, Value, accumulator_dtype, narrow, widen
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

_SIMPLE = frozenset(["add", "multiply", "maximum", "minimum", "and", "or", "xor"])
_UFUNCS: Mapping[str, Any] = MappingProxyType(
    {
        "add": np.add,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
)
_PRED_UFUNCS: Mapping[str, Any] = MappingProxyType(
    {"add": np.logical_or, "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and,
     "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
)  # fmt: skip


def simple_opcode(computation: HloComputation) -> str | None:
    """Returns the opcode of a computation that is one commutative binary instruction on its two parameters, or None.

    Conversions of narrow floats to a wider type for the computation, and back for the result, are looked through.
    """
    result = root = computation.root_instruction
    if root.opcode == "convert":
        root = root.operand(0)
    if root.opcode not in _SIMPLE or computation.num_parameters != 2 or not _is_widening(result, root):
        return None
    operands = [o.operand(0) if o.opcode == "convert" else o for o in root.operands]
    if any(o.opcode != "parameter" or not _is_widening(o, root) for o in operands):
        return None
    return root.opcode if {o.attributes_as(ParameterAttributes).parameter_number for o in operands} == {0, 1} else None


def _is_widening(narrow_one: HloInstruction, wide_one: HloInstruction) -> bool:
    """Whether the second has the type of the first, or is a wider float."""
    a, b = narrow_one.shape.element_type, wide_one.shape.element_type
    return a is b or (a.is_float and b.is_float and a.bit_width < b.bit_width)


def fold_simple(interpreter: Interpreter, opcode: str, x: Array, init: Array, axes: tuple[int, ...]) -> Array:
    """Reduces axes with one of the simple opcodes; the result has the type of `init`."""
    dtype = init.dtype
    if x.dtype == np.bool_:
        folded = _PRED_UFUNCS[opcode].reduce(x, axis=axes)
        return apply(interpreter, opcode, dtype, np.asarray(folded), init)
    wide, ufunc = interpreter.flush(widen(x)), _UFUNCS[opcode]
    if opcode in ("maximum", "minimum"):
        return _fold_extremum(interpreter, opcode, wide, init, axes)
    accumulator = accumulator_dtype(dtype) if opcode == "add" else wide.dtype
    start = widen(init).astype(accumulator)
    if opcode == "add" and wide.dtype.kind in "fc":  # NumPy starts at +0.0, which a sum of -0.0 must not become
        folded = ufunc.reduce(wide, axis=axes, dtype=accumulator, initial=-0.0 if wide.dtype.kind == "f" else _NOTHING)
    else:
        folded = ufunc.reduce(wide, axis=axes, dtype=accumulator)
    total = ufunc(folded, start)
    return _round(interpreter, np.asarray(total), dtype)


_NOTHING = complex(-0.0, -0.0)


def _round(interpreter: Interpreter, x: Array, dtype: np.dtype) -> Array:
    if x.dtype.kind in "fc":
        x = interpreter.flush(x.astype(widen(np.empty((), dtype)).dtype, copy=False))
    return narrow(x, dtype)


def _fold_extremum(interpreter: Interpreter, opcode: str, wide: Array, init: Array, axes: tuple[int, ...]) -> Array:
    if not wide.size:
        return np.broadcast_to(init, [n for i, n in enumerate(wide.shape) if i not in axes])
    best = np.asarray(_UFUNCS[opcode].reduce(wide, axis=axes))
    if wide.dtype.kind == "f" and (zero := best == 0).any():  # NumPy does not order -0 and +0
        signs = np.signbit(wide)
        negative = signs.all(axis=axes) if opcode == "maximum" else (signs & (wide == 0)).any(axis=axes)
        best = np.where(zero, np.where(negative, -best.dtype.type(0), best.dtype.type(0)), best)
    return apply(interpreter, opcode, init.dtype, narrow(np.asarray(best), init.dtype), init)


def fold(
    interpreter: Interpreter, computation: HloComputation, arrays: Sequence[Array], inits: Sequence[Array],
    axes: tuple[int, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """Reduces axes of all arrays together with a computation; returns one array per init."""
    opcode = simple_opcode(computation)
    if opcode is not None and len(arrays) == 1:
        return (fold_simple(interpreter, opcode, arrays[0], inits[0], axes),)
    kept = [i for i in range(arrays[0].ndim) if i not in axes]
    shape = tuple(arrays[0].shape[i] for i in kept)
    lines = [a.transpose([*axes, *kept]).reshape(-1, *shape) if a.size else a.reshape(0, *shape) for a in arrays]
    starts = [np.broadcast_to(i, shape) for i in inits]
    if lines[0].shape[0] == 0 or 0 in shape:
        return tuple(np.array(s) for s in starts)
    while (count := lines[0].shape[0]) > 1:
        even = count - count % 2
        merged = _combine(interpreter, computation, [a[0:even:2] for a in lines], [a[1:even:2] for a in lines])
        lines = [np.concatenate([m, a[even:]]) for m, a in zip(merged, lines)]
    return _combine(interpreter, computation, starts, [a[0] for a in lines])


def _combine(
    interpreter: Interpreter, computation: HloComputation, left: Sequence[Array], right: Sequence[Array]
) -> tuple[Array, ...]:
    result = interpreter.call_elementwise(computation, *left, *right)
    return result if isinstance(result, tuple) else (result,)


def _reduce(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    count = len(operands) // 2
    axes = tuple(sorted(instruction.attributes_as(DimensionsAttributes).dimensions))
    results = fold(interpreter, instruction.to_apply, operands[:count], operands[count:], axes)
    return results if instruction.shape.is_tuple else results[0]


def _map(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    return interpreter.call_elementwise(instruction.to_apply, *operands)


def _scan(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """Runs the body over slices: (slices.., carries..) -> (outputs.., carries..); outputs are stacked."""
    attributes = instruction.attributes_as(ScanAttributes)
    axis = attributes.dimensions[0]
    split = len(operands) - attributes.num_carries
    inputs, carries = operands[:split], list(operands[split:])
    is_tuple = instruction.shape.is_tuple
    shapes = instruction.shape.tuple_shapes if is_tuple else (instruction.shape,)
    outputs = [np.empty(s.dimensions, s.dtype) for s in shapes[: len(shapes) - attributes.num_carries]]
    length = (inputs or outputs)[0].shape[axis]
    steps = range(length)
    for i in reversed(steps) if attributes.is_reverse else steps:
        index = (slice(None),) * axis + (i,)
        result = interpreter.call(instruction.to_apply, *(np.asarray(x[index]) for x in inputs), *carries)
        result = result if isinstance(result, tuple) else (result,)
        for output, item in zip(outputs, result):
            output[index] = item
        carries = list(result[len(outputs) :])
    results = (*outputs, *carries)
    return results if is_tuple else results[0]


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({"reduce": _reduce, "map": _map, "scan": _scan})
