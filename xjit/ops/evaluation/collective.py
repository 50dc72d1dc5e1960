"""Collectives: what each device computes from the operands of its whole group; see `devices` for how they meet."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import CollectiveAttributes, CollectivePermuteAttributes
from xjit.hlo.diagnostics import ExecutionError, HloVerifyError
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.evaluation.control import identity
from xjit.ops.evaluation.numerics import Array, Value, concrete_int, narrow, unsupported, widen, zeros
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.ops.opdef import Evaluator
from xjit.ops.replica_groups import participants, permute_peers

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


_UFUNCS = {"add": np.add, "multiply": np.multiply}


def rounded_once(instruction: HloInstruction, kind: PrimitiveType) -> str | None:
    """The operation of a reduction over devices whose result alone is rounded; None for others.

    As in XLA's CPU client these are sums and products of bf16 and of floats of a byte or less.
    """
    opcode = simple_opcode(instruction.to_apply)
    is_coarse = kind.is_float and kind.bit_width <= 16 and kind is not PrimitiveType.F16
    return opcode if is_coarse and opcode in _UFUNCS else None


def _group(interpreter: Interpreter, instruction: HloInstruction) -> tuple[int, ...]:
    """Returns the devices of this device's group; () if it is in none."""
    device = interpreter.device
    return participants(instruction, device.number, device.replica_count, device.num_partitions)


def _meet(
    interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> tuple[int, list[tuple[Array, ...]]]:
    """Returns this device's position in its group, and the operands of all members in the order of the group."""
    device, group = interpreter.device, _group(interpreter, instruction)
    if device.number not in group:
        raise ExecutionError(f"{instruction.opcode}: device {device.number} is in no replica group", instruction.span)
    return group.index(device.number), device.rendezvous.exchange(device.number, instruction, group, tuple(operands))


def _results(instruction: HloInstruction, shape: Shape, arrays: Sequence[Array]) -> Value:
    """Returns the arrays, as a tuple if the shape is one; they must fit it."""
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    if [s.dimensions for s in shapes] != [a.shape for a in arrays]:
        found = ", ".join(str(list(a.shape)) for a in arrays)
        raise unsupported(
            f"{instruction.opcode} over several devices: on those of this module it is {found}, not {shape}"
        )
    return tuple(arrays) if shape.is_tuple else arrays[0]


def _axis(instruction: HloInstruction) -> int:
    return instruction.attributes_as(CollectiveAttributes).dimensions[0]


def _reduced(interpreter: Interpreter, instruction: HloInstruction, parts: Sequence[tuple[Array, ...]]) -> list[Array]:
    """Folds the members' operands with the reducer, in the order of the group.

    What is `rounded_once` is rounded at the end.
    """
    opcodes = {rounded_once(instruction, operand.shape.element_type) for operand in instruction.operands}
    ufunc = _UFUNCS.get(opcodes.pop() or "") if len(opcodes) == 1 else None
    if ufunc is not None:
        columns = zip(*parts, strict=True)
        return [narrow(functools.reduce(ufunc, map(widen, column)), column[0].dtype) for column in columns]
    totals = list(parts[0])
    for part in parts[1:]:
        pairs = zip(totals, part, strict=True)
        totals = [interpreter.call_elementwise(instruction.to_apply, a, b) for a, b in pairs]
    return totals


def _all_reduce(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    _, parts = _meet(interpreter, instruction, operands)
    return _results(instruction, instruction.shape, _reduced(interpreter, instruction, parts))


def _reduce_scatter(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    position, parts = _meet(interpreter, instruction, operands)
    totals = _reduced(interpreter, instruction, parts)
    blocks = [_block(instruction, total, len(parts), position) for total in totals]
    return _results(instruction, instruction.shape, blocks)


def _block(instruction: HloInstruction, array: Array, count: int, position: int) -> Array:
    """The `position`-th of `count` equal parts along the collective's dimension."""
    axis = _axis(instruction)
    if array.shape[axis] % count:
        message = f"{instruction.opcode}: dimension {axis} of {list(array.shape)} has no {count} equal parts"
        raise HloVerifyError(message, instruction.span)
    return np.split(array, count, axis)[position]


def _gathered(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array], shape: Shape) -> Value:
    _, parts = _meet(interpreter, instruction, operands)
    arrays = [np.concatenate(column, _axis(instruction)) for column in zip(*parts, strict=True)]
    return _results(instruction, shape, arrays)


def _all_gather(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    return _gathered(interpreter, instruction, operands, instruction.shape)


def _all_gather_start(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    sources, shape = instruction.shape.tuple_shapes[:2]
    given = tuple(operands) if sources.is_tuple else operands[0]
    return given, _gathered(interpreter, instruction, operands, shape)


def _all_to_all(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """Result k is what member k has for this device: its operand of that number, or its block along the dimension."""
    position, parts = _meet(interpreter, instruction, operands)
    attributes = instruction.attributes_as(CollectiveAttributes)
    if not attributes.dimensions:
        if len(operands) != len(parts):
            message = f"{instruction.opcode} has {len(operands)} operands for a group of {len(parts)} devices"
            raise HloVerifyError(message, instruction.span)
        return _results(instruction, instruction.shape, [part[position] for part in parts])
    blocks = [_block(instruction, part[0], len(parts), position) for part in parts]
    return _results(instruction, instruction.shape, [np.concatenate(blocks, _axis(instruction))])


def _broadcast(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """The operands of the group's first member; zeros on a device of no group."""
    if not _group(interpreter, instruction):
        return zeros(instruction.shape)
    return _results(instruction, instruction.shape, _meet(interpreter, instruction, operands)[1][0])


def _permuted(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array], shape: Shape) -> Value:
    """The operands of the device that sends to this one; zeros if none does."""
    if instruction.attributes_as(CollectivePermuteAttributes).slice_sizes:
        raise unsupported(f"{instruction.opcode} into slices")
    device = interpreter.device
    pairs = permute_peers(instruction, device.number, device.replica_count, device.num_partitions)
    members = tuple(sorted({member for pair in pairs for member in pair}))
    if device.number not in members:
        return zeros(shape)
    values = device.rendezvous.exchange(device.number, instruction, members, tuple(operands))
    source = next((s for s, target in pairs if target == device.number), None)
    return zeros(shape) if source is None else _results(instruction, shape, values[members.index(source)])


def _collective_permute(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    return _permuted(interpreter, instruction, operands, instruction.shape)


def _collective_permute_start(
    interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> Value:
    sources, shape, *contexts = instruction.shape.tuple_shapes
    given = tuple(operands) if sources.is_tuple else operands[0]
    return given, _permuted(interpreter, instruction, operands, shape), *(zeros(c) for c in contexts)


def _ragged_all_to_all(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Rows between ragged arrays: (input, output, input offsets, send sizes, output offsets, receive sizes).

    Offsets and sizes have equally many entries per member; an output offset counts in the receiver's array.
    """
    position, parts = _meet(interpreter, instruction, operands)
    result = operands[1].copy()
    for part in parts:
        source, _, begins, sizes, targets = part[:5]
        each = begins.size // len(parts)
        for i in range(position * each, (position + 1) * each):
            begin, count, target = (concrete_int(x.reshape(-1)[i]) for x in (begins, sizes, targets))
            result[target : target + count] = source[begin : begin + count]
    return result


def _replica_id(interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]) -> Array:
    return np.asarray(interpreter.device.replica, instruction.shape.dtype)


def _partition_id(interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]) -> Array:
    return np.asarray(interpreter.device.partition, instruction.shape.dtype)


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
        "all-gather": _all_gather,
        "all-reduce": _all_reduce,
        "all-to-all": _all_to_all,
        "collective-broadcast": _broadcast,
        "reduce-scatter": _reduce_scatter,
        "all-reduce-start": _all_reduce,
        "all-reduce-done": identity,
        "all-gather-start": _all_gather_start,
        "all-gather-done": _element(1),
        "collective-permute": _collective_permute,
        "collective-permute-start": _collective_permute_start,
        "collective-permute-done": _element(1),
        "ragged-all-to-all": _ragged_all_to_all,
        "partition-id": _partition_id,
        "replica-id": _replica_id,
        "copy-start": _copy_start,
        "copy-done": _element(0),
        "async-start": _async_start,
        "async-update": identity,
        "async-done": _element(1),
    }
)
