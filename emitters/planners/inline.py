"""Single numbers, computed where they are needed: code in the line of a loop's body instead of a call of a kernel.

A loop that counts, compares, or carries a number or two spends its time on calls otherwise. Arrays may be read, an
element of one; one element of an array may be updated in place.
"""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

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
    return all(root.opcode == UPDATE or is_number(root.shape) for root in view.roots)


def is_number(shape: Shape) -> bool:
    """Whether a shape is that of one number."""
    return shape.is_array and shape.is_static and shape.num_elements == 1


def _is_update_in_place(view: KernelView, update: HloInstruction) -> bool:
    target = update.operand(0)
    return (
        len(view.roots) == 1
        and is_number(update.operand(1).shape)
        and target in view.leaves
        and (view.leaves.index(target), 0) in view.shared
    )
