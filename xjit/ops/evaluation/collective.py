"""Collectives with a single participant: mostly the identity. A module that needs more devices is Unsupported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.evaluation.control import identity
from xjit.ops.evaluation.numerics import Array, Value, concrete_int, unsupported, zeros
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _same(instruction: HloInstruction, operands: Sequence[Array], shape: Shape) -> Value:
    """Returns the operands as they are, as a tuple if the shape is one; they must fit it."""
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    if len(shapes) != len(operands) or any(s.dimensions != x.shape for s, x in zip(shapes, operands)):
        raise unsupported(f"{instruction.opcode} over several devices: its result {shape} is not the operand's shape")
    return tuple(operands) if shape.is_tuple else operands[0]


def _collective(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    return _same(instruction, operands, instruction.shape)


def _all_gather_start(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    sources, shape = instruction.shape.tuple_shapes[:2]
    return tuple(operands) if sources.is_tuple else operands[0], _same(instruction, operands, shape)


def _permuted(instruction: HloInstruction, operands: Sequence[Array], shape: Shape) -> Value:
    """Device 0 receives its own value if it sends to itself, else zeros."""
    pairs = [tuple(p) for p in instruction.attributes_as(at.CollectivePermuteAttributes).source_target_pairs]
    if any(target == 0 and source != 0 for source, target in pairs):
        raise unsupported(f"{instruction.opcode} from another device")
    return _same(instruction, operands, shape) if (0, 0) in pairs else zeros(shape)


def _collective_permute(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    if instruction.attributes_as(at.CollectivePermuteAttributes).slice_sizes:
        raise unsupported("collective-permute into slices")
    return _permuted(instruction, operands, instruction.shape)


def _collective_permute_start(
    _interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> Value:
    if instruction.attributes_as(at.CollectivePermuteAttributes).slice_sizes:
        raise unsupported("collective-permute-start into slices")
    sources, shape, *contexts = instruction.shape.tuple_shapes
    given = tuple(operands) if sources.is_tuple else operands[0]
    return given, _permuted(instruction, operands, shape), *(zeros(c) for c in contexts)


def _ragged_all_to_all(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Copies rows between ragged arrays: (input, output, input offsets, send sizes, output offsets, receive sizes)."""
    source, result = operands[0], operands[1].copy()
    for begin, count, target, _ in zip(*(x.reshape(-1) for x in operands[2:])):
        begin, count, target = (concrete_int(v) for v in (begin, count, target))
        result[target : target + count] = source[begin : begin + count]
    return result


def _zero_id(_interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]) -> Array:
    return np.zeros((), instruction.shape.dtype)


def _copy_start(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    contexts = instruction.shape.tuple_shapes[2:]
    return operands[0], operands[0], *(zeros(c) for c in contexts)


def _async_start(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    """Runs the whole computation at the start; value ((operands), result, contexts..)."""
    result = interpreter.call(instruction.called_computations[0], *operands)
    return tuple(operands), result, *(zeros(c) for c in instruction.shape.tuple_shapes[2:])


def _element(index: int) -> Evaluator:
    def evaluate(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Value]) -> Value:
        return operands[0][index]

    return evaluate


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        "all-gather": _collective,
        "all-reduce": _collective,
        "all-to-all": _collective,
        "collective-broadcast": _collective,
        "reduce-scatter": _collective,
        "all-reduce-start": _collective,
        "all-reduce-done": identity,
        "all-gather-start": _all_gather_start,
        "all-gather-done": _element(1),
        "collective-permute": _collective_permute,
        "collective-permute-start": _collective_permute_start,
        "collective-permute-done": _element(1),
        "ragged-all-to-all": _ragged_all_to_all,
        "partition-id": _zero_id,
        "replica-id": _zero_id,
        "copy-start": _copy_start,
        "copy-done": _element(0),
        "async-start": _async_start,
        "async-update": identity,
        "async-done": _element(1),
    }
)
