"""Single numbers, computed where they are needed: code in the line of a loop's body instead of a call of a kernel.

A loop that counts, compares, or carries a number or two spends its time on calls otherwise. Arrays may be read, an
element of one; one element of an array may be updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import constant
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.memory import Buffer
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.values import Value

MAX_OPERATIONS = 24
"""A kernel function is called with six pointers or so; what is longer than that by far is shared between call sites."""

MEMBERS = frozenset(
    {"constant", "broadcast", "reshape", "bitcast", "transpose", "slice", "reverse", "iota", "dynamic-slice"}
)
"""What may be part of such code besides elementwise instructions."""

UPDATE = "dynamic-update-slice"


def is_scalar_code(view: KernelView) -> bool:
    """Whether each result of a view is one number, or one number of an array that is updated in place."""
    members = [i for i in view.instructions() if i not in view.leaves]
    if len(members) > MAX_OPERATIONS:
        return False
    for member in members:
        if member in view.roots and member.opcode == UPDATE:
            if not _is_update_in_place(view, member):
                return False
        elif not (member.op.has(Trait.ELEMENTWISE) or member.opcode in MEMBERS):
            return False
    return all(root.opcode == UPDATE or _is_number(root.shape) for root in view.roots)


def _is_number(shape: Shape) -> bool:
    return shape.is_array and shape.is_static and shape.num_elements == 1


def _is_update_in_place(view: KernelView, update: HloInstruction) -> bool:
    target = update.operand(0)
    return (
        len(view.roots) == 1
        and _is_number(update.operand(1).shape)
        and target in view.leaves
        and (view.leaves.index(target), 0) in view.shared
    )


def emit_scalar_code(
    context: KernelContext, function: Function, builder: IRBuilder, view: KernelView, pointers: Sequence[Value]
) -> None:
    """Emits the numbers of a view for which `is_scalar_code` holds; `pointers` are its operands, then its results."""
    leaves = {
        leaf: Buffer(leaf.shape, pointer)
        for leaf, pointer in zip(view.leaves, pointers, strict=False)
        if leaf.opcode != "constant" or not _is_number(leaf.shape)
    }
    leaves.update(context.constant_leaves(view))
    fused = FusedIrEmitter(LoopNest(context.module, function, context.target, builder), leaves, context.maps)
    results = [Buffer(s, p) for s, p in zip(view.result_shapes, pointers[len(view.leaves) :], strict=True)]
    if view.hero.opcode == UPDATE:
        place = tuple(fused.runtime_values(view.hero, 1, ()))
        values = [fused.element(view.hero.operand(1), (constant(0),) * len(place))[0]]
        places = [place]
    else:
        places = [(constant(0),) * root.shape.rank for root in view.roots]
        values = [fused.element(root, place)[0] for root, place in zip(view.roots, places, strict=True)]
    for buffer, place, value in zip(results, places, values, strict=True):  # all are read before one is written
        fused.memory.store(buffer, place, value)
