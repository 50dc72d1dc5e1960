"""Which instructions of an unnested computation are kernel calls, and what such a call is given.

Where a value lies is decided by buffer assignment. Planning and emission of a module walk over the same calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xjit.dataclass import dataclass
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.inline import is_scalar_code
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.thunks import ShapedSlice

SEQUENTIAL = frozenset({"while", "conditional", "call"})
"""Opcodes that run other unnested computations."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What an instruction computes as a kernel (or several), and on which slices. `is_inline`: as code in line."""

    view: KernelView
    operands: tuple[ShapedSlice, ...]
    results: tuple[ShapedSlice, ...]
    is_inline: bool


def unnested_computations(assignment: BufferAssignment) -> list[HloComputation]:
    """Returns the entry and all that runs inside of it, callees first."""
    return post_order([assignment.module.entry_computation], _callees)  # no recursion, however deep they are nested


def _callees(computation: HloComputation) -> list[HloComputation]:
    return [c for i in computation.instructions if i.opcode in SEQUENTIAL for c in i.called_computations]


def kernel_calls(assignment: BufferAssignment, inline: bool = True) -> Iterator[KernelCall]:
    """Yields the kernel calls of a module, in the order of its unnested computations and their schedules."""
    for computation in unnested_computations(assignment):
        may_inline = inline and computation is not assignment.module.entry_computation
        for instruction in assignment.sequence(computation):
            if not is_kernel(assignment, instruction):
                continue
            call = kernel_call(assignment, instruction, may_inline and instruction.opcode != "copy")
            if call is not None:
                yield call


def is_kernel(assignment: BufferAssignment, instruction: HloInstruction) -> bool:
    """Whether kernels do an instruction of an unnested computation: not for plumbing, control flow, copies of bytes."""
    if instruction.op.has(Trait.PLUMBING) or instruction.opcode in SEQUENTIAL:
        return False
    return instruction.opcode != "copy" or changes_layout(assignment, instruction)


def changes_layout(assignment: BufferAssignment, copy: HloInstruction) -> bool:
    """Whether a copy is one of an array, to another place and another layout."""
    source, shape = copy.operand(0), copy.shape
    if not shape.is_array or source.shape.layout == shape.layout:
        return False
    return assignment.slice(source) != assignment.slice(copy)


def kernel_call(assignment: BufferAssignment, instruction: HloInstruction, inline: bool) -> KernelCall | None:
    """Returns the call of an instruction for which `is_kernel` holds; None if there is nothing to compute.

    Errors: Unsupported for a tuple as an operand.
    """
    leaves = [shape for _, shape in instruction.shape.leaves()]
    if leaves and all(s.is_array and s.num_elements == 0 for s in leaves):
        return None
    read = _operands(instruction)
    if whole := next((o.name for o in read if o.shape.is_tuple), ""):
        what = f"{instruction.opcode} '{instruction.name}' with the tuple '{whole}' as an operand"
        raise Unsupported(f"{what}: kernels take arrays only", instruction.span)
    operands = tuple(_slice(assignment, o) for o in read)
    results = tuple(_slice(assignment, instruction, i) for i, s in instruction.shape.leaves() if s.is_array)
    shared = [(i, j) for j, r in enumerate(results) for i, o in enumerate(operands) if o.slice == r.slice]
    may_share = [
        (i, j) for j, r in enumerate(results) for i, o in enumerate(operands) if assignment.may_be_one(o.slice, r.slice)
    ]
    view = KernelView.of(instruction, shared, may_share)
    return KernelCall(view, operands, results, inline and is_scalar_code(view))


def _operands(instruction: HloInstruction) -> Sequence[HloInstruction]:
    return instruction.operands if instruction.opcode == "fusion" else instruction.unique_operands()


def _slice(assignment: BufferAssignment, instruction: HloInstruction, index: ShapeIndex = ()) -> ShapedSlice:
    return ShapedSlice(instruction.shape.subshape(index), assignment.slice(instruction, index))
