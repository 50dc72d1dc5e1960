"""Collectives with one participant as plain instructions, and asynchronous pairs as what they start, run at once.

A collective of one device whose results are not shaped like its operands, or that needs a value from another one, is
left: the emitters refuse it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Literal, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.ops.replica_groups import has_several_devices, is_alone
from xjit.passes.calls_and_control.call_inliner import inline_call
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.hlo_dce import remove_unreachable_computations

_SAME = frozenset(
    {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast", "all-reduce-start"}
)
_PICKED = {"all-gather-done": 1, "collective-permute-done": 1, "copy-done": 0, "async-done": 1}
_AT_ONCE = frozenset({"all-reduce-start", "all-gather-start", "collective-permute-start"})
_STARTS = frozenset({"all-gather-start", "collective-permute-start", "copy-start", "async-start"})


@dataclass
class CollectiveExpander(OpExpander):
    """With one replica and one partition, a collective is its operands, or zeros where nobody sends.

    With several, a start is the collective itself, and a done takes its result.
    """

    name = "collective-expander"
    opcodes = _SAME | _STARTS | _PICKED.keys() | {"collective-permute", "all-reduce-done", "async-update"}

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands; what was started is no computation of its own any more."""
        changed = super().run_impl(module, execution_threads)
        if changed:
            remove_unreachable_computations(module)
        return changed

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns what the instruction is on one device."""
        opcode = instruction.opcode
        if opcode in ("all-reduce-done", "async-update"):
            return instruction.operand(0) if not _is_start(instruction.operand(0)) else None
        if opcode in _PICKED:
            operand = instruction.operand(0)
            return None if _is_start(operand) else into.element(operand, _PICKED[opcode])
        if opcode == "copy-start":
            return _copy_start(instruction, into)
        if opcode == "async-start":
            return _async_start(instruction, into)
        if is_alone(instruction):
            return _collective(instruction, into)
        if opcode in _AT_ONCE and has_several_devices(instruction):
            return _at_once(instruction, into)
        return None


def _at_once(start: HloInstruction, into: Expansion) -> HloInstruction | None:
    """The synchronous form of a start, in the tuple that the start has: ((operands), result, contexts...)."""
    opcode, shape = start.opcode.removesuffix("-start"), start.shape
    inner = shape if opcode == "all-reduce" else shape.tuple_shapes[1]
    result = into.add(
        HloInstruction.create(opcode, inner, start.operands, start.attributes, list(start.called_computations))
    )
    if opcode == "all-reduce":
        return result
    source = _operands_as(start, shape.tuple_shapes[0], into)
    contexts = _contexts(shape, into)
    return None if source is None or contexts is None else into.tuple_of(source, result, *contexts)


def _is_start(instruction: HloInstruction) -> bool:
    return instruction.opcode in _STARTS or instruction.opcode in ("all-reduce-start", "async-update")


def _collective(instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _SAME:
        return _operands_as(instruction, shape, into)
    inner = shape.tuple_shapes[1] if opcode.endswith("-start") else shape
    if opcode == "all-gather-start":
        result = _operands_as(instruction, inner, into)
    else:
        result = _permuted(instruction, inner, into)
    if result is None or opcode == "collective-permute":
        return result
    source = _operands_as(instruction, shape.tuple_shapes[0], into)
    contexts = _contexts(shape, into)
    return None if source is None or contexts is None else into.tuple_of(source, result, *contexts)


def _operands_as(instruction: HloInstruction, shape: Shape, into: Expansion) -> HloInstruction | None:
    """The operands, as a tuple if the shape is one; None if they have another shape."""
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    operands = instruction.operands
    if len(shapes) != len(operands) or any(not o.shape.compatible(s) for o, s in zip(operands, shapes, strict=True)):
        return None
    return into.tuple_of(*operands) if shape.is_tuple else operands[0]


def _permuted(instruction: HloInstruction, shape: Shape, into: Expansion) -> HloInstruction | None:
    pairs = [tuple(p) for p in instruction.attributes_as(at.CollectivePermuteAttributes).source_target_pairs]
    if instruction.attributes_as(at.CollectivePermuteAttributes).slice_sizes:
        return None
    if (0, 0) in pairs:
        return _operands_as(instruction, shape, into)
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    zeros = [into.full(s, 0) for s in shapes]
    return into.tuple_of(*zeros) if shape.is_tuple else zeros[0]


def _contexts(shape: Shape, into: Expansion) -> list[HloInstruction] | None:
    """Zeros for the contexts of a start's tuple."""
    if any(not s.is_array for s in shape.tuple_shapes[2:]):
        return None
    return [into.constant(Literal.full(s.with_default_layouts(), 0)) for s in shape.tuple_shapes[2:]]


def _copy_start(instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
    """(copy, source, contexts...)."""
    contexts = _contexts(instruction.shape, into)
    if contexts is None:
        return None
    copy = into.add(build.make("copy", instruction.operand(0), shape=instruction.shape.tuple_shapes[0]))
    return into.tuple_of(copy, instruction.operand(0), *contexts)


def _async_start(instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
    """((operands), result, contexts...): the computation runs here."""
    contexts = _contexts(instruction.shape, into)
    if contexts is None:
        return None
    operands, callee = instruction.operands, instruction.called_computations[0]
    call = into.add(
        HloInstruction.create("call", instruction.shape.tuple_shapes[1], operands, called_computations=[callee])
    )
    result = into.tuple_of(into.tuple_of(*operands), call, *contexts)
    for clone in inline_call(call).values():
        _run_here(clone)
    return result


def _run_here(caller: HloInstruction) -> None:
    """Gives what an instruction calls to the thread that the instruction runs on, and a fusion what is its own."""
    thread = caller.parent.execution_thread if caller.parent is not None else ""
    called = caller.called_computations
    if caller.opcode == "fusion" or any(c.execution_thread != thread for c in called):
        own_computations(caller)
    for computation in caller.called_computations:
        if computation.execution_thread != thread:
            computation.execution_thread = thread
            for instruction in computation.calling_instructions():
                _run_here(instruction)
