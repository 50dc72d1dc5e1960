"""Rules about buffers: memory that is pinned, written in place by custom calls, and unpinned again.

A value of buffer type `b(f32[4])` stands for the memory after one write. So it is written (or unpinned) once at most,
every custom call that takes one gives it on as one of its results, and the entry has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import parse_aliases
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.hlo.types.shape_index import format_shape_index
from xjit.ops.shape_inference.common import show
from xjit.ops.verifier_error import wrong

_RNG_SEED = "GetRngSeed"
_MAKES, _ENDS, _CREATES = "Pin", "Unpin", "CreateBuffer"
_WRITERS = frozenset({"async-start", "call", "conditional", "custom-call", "dynamic-update-slice", "fusion", "while"})
_PASS_BUFFERS_ON = frozenset({
    "async-start", "async-update", "async-done", "call", "copy", "custom-call", "dynamic-update-slice",
    "get-tuple-element", "parameter", "tuple", "while",
})  # fmt: skip


def verify_buffers(module: HloModule) -> None:
    """Raises HloVerifyError at the first custom call or value that breaks a rule about buffers."""
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.opcode == "custom-call":
                _check_custom_call(instruction)
            if instruction.shape.holds_buffer:
                _check_buffer_value(instruction)
    for instruction in (*module.entry_computation.parameter_instructions, module.entry_computation.root_instruction):
        if instruction.shape.holds_buffer:
            raise wrong(instruction, f"the entry has a buffer, {instruction.shape}, as a parameter or result")


# -- custom calls


def _check_custom_call(call: HloInstruction) -> None:
    target = call.attributes_as(at.CustomCallAttributes).custom_call_target
    if target == _RNG_SEED:
        _check_rng_seed(call)
    elif target == _MAKES:
        _check_pin(call)
    elif target == _ENDS:
        _check_unpin(call)
    elif target == _CREATES:
        if call.operand_count or not call.shape.is_buffer:
            raise wrong(call, f"{_CREATES} takes no operands and gives a buffer, not {show(call.shape)}")
    else:
        _check_buffers_are_given_on(call)


def _check_rng_seed(call: HloInstruction) -> None:
    if call.operand_count:
        raise wrong(call, f"{_RNG_SEED} takes no operands, got {call.operand_count}")
    if call.shape.element_type is not PrimitiveType.U64 or not call.shape.is_scalar:
        raise wrong(call, f"{_RNG_SEED} gives a u64[], not {call.shape}")


def _check_pin(call: HloInstruction) -> None:
    if call.operand_count != 1 or not call.operand(0).shape.is_array:
        raise wrong(call, f"{_MAKES} takes one array, got {_operand_shapes(call)}")
    if not call.shape.is_buffer:
        raise wrong(call, f"{_MAKES} gives a buffer, not {show(call.shape)}")
    _check_same_memory(call, call.operand(0).shape, call.shape.tuple_shapes[0])


def _check_unpin(call: HloInstruction) -> None:
    if call.operand_count != 1 or not call.operand(0).shape.is_buffer:
        raise wrong(call, f"{_ENDS} takes one buffer, got {_operand_shapes(call)}")
    if not call.shape.is_array:
        raise wrong(call, f"{_ENDS} gives an array, not {show(call.shape)}")
    _check_same_memory(call, call.operand(0).shape.tuple_shapes[0], call.shape)


def _check_same_memory(call: HloInstruction, source: Shape, target: Shape) -> None:
    """The array keeps its shape and place."""
    if not source.compatible(target):
        raise wrong(call, f"the operand holds {show(source)}, the result {show(target)}")
    if len(_aliases(call)) != 1:
        raise wrong(call, "output_to_operand_aliasing must say that result and operand share their memory")


def _operand_shapes(call: HloInstruction) -> str:
    return ", ".join(show(operand.shape) for operand in call.operands) or "nothing"


def _aliases(call: HloInstruction) -> Sequence[tuple[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
    """Returns (output index, (operand number, index in it)) pairs."""
    text = call.attributes_as(at.CustomCallAttributes).output_to_operand_aliasing
    return [(a.output_index, (a.parameter_number, a.parameter_index)) for a in parse_aliases(text)]


def _check_buffers_are_given_on(call: HloInstruction) -> None:
    operands = [(n, index) for n, operand in enumerate(call.operands) for index in _buffers(operand.shape)]
    results = _buffers(call.shape)
    if not operands and not results:
        return
    pairs = _aliases(call)
    taken, given = Counter(source for _, source in pairs), Counter(target for target, _ in pairs)
    for number, index in operands:
        if taken[number, index] != 1:
            place = f"the buffer at {format_shape_index(index)} of operand {number}"
            how = "more than one result" if taken[number, index] else "no result"
            raise wrong(call, f"{place} must be one of the results by output_to_operand_aliasing; it is {how}")
    for index in results:
        if given[index] != 1:
            how = "more than one operand" if given[index] else "no operand"
            place = f"the buffer at {format_shape_index(index)} of the result"
            raise wrong(call, f"{place} must be one of the operands by output_to_operand_aliasing; it is {how}")


def _buffers(shape: Shape) -> list[tuple[int, ...]]:
    return [index for index, part in shape.subshapes() if part.is_buffer] if shape.holds_buffer else []


# -- values


def _check_buffer_value(value: HloInstruction) -> None:
    if value.opcode not in _PASS_BUFFERS_ON:
        raise wrong(value, f"its result {show(value.shape)} is or has a buffer, which only custom calls can write")
    if value.opcode in ("tuple", "get-tuple-element"):
        return  # counted where the buffer comes from
    for index in _buffers(value.shape):
        if (count := _writers(value, index)) > 1:
            place = f" at {format_shape_index(index)}" if index else ""
            raise wrong(value, f"the buffer {value.name}{place} has {count} writers, but is one value of its memory")


def _writers(value: HloInstruction, index: tuple[int, ...]) -> int:
    """Returns how many users write the buffer at an index of a value, through tuples; a loop writes its state."""
    return sum(_writers_in(value, index, user) for user in value.users)


def _writers_in(value: HloInstruction, index: tuple[int, ...], user: HloInstruction) -> int:
    if user.opcode in _WRITERS:
        return 1
    if user.opcode == "get-tuple-element":
        element = user.attributes_as(at.GetTupleElementAttributes).index
        return _writers(user, index[1:]) if index and element == index[0] else 0
    if user.opcode != "tuple":
        return 0
    if user.is_root():
        callers = user.parent.caller_instructions() if user.parent is not None else ()
        return int(any(caller.opcode == "while" for caller in callers))
    return _writers(user, (next(i for i, o in enumerate(user.operands) if o is value), *index))
