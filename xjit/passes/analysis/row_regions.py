"""Reductions of rows that need another reduction of the same rows, with all that lies between them.

Of softmax these are the maximum, the exponentials below it, and their sum; then there are the quotients by the sum.

      x ----.-----------------.
            v                 v
          reduce -> broadcast -> subtract -> exponential ---.-----------.
                                                  v                     v
                                                reduce -> broadcast -> divide

A row is what lies along the last dimension of a row-major array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo.attributes import DimensionsAttributes
from xjit.hlo.edit.cloning import HloCloneContext
from xjit.hlo.ir.classification import changes_element_type
from xjit.hlo.ir.paths import instruction_between
from xjit.passes.framework.base import has_control_dependencies, has_opcodes

__all__ = ["RowRegion", "find_row_regions"]

_TYPES = (PrimitiveType.F32, PrimitiveType.F64)
_BETWEEN = frozenset((
    "abs", "add", "and", "bitcast", "broadcast", "compare", "divide", "exponential", "is-finite", "log", "maximum",
    "minimum", "multiply", "negate", "power", "reshape", "select", "subtract",
))  # fmt: skip
_MOST = 64
"""Instructions of a region: what is larger has other things in it than a row's reductions."""


@dataclass(frozen=True, slots=True)
class RowRegion:
    """`instructions` in topological order; they read `inputs`, and others read `outputs`. `rows`: the reduced array."""

    instructions: tuple[HloInstruction, ...]
    inputs: tuple[HloInstruction, ...]
    outputs: tuple[HloInstruction, ...]
    rows: Shape

    def as_module(self) -> HloModule:
        """Returns a module that computes the outputs, a tuple, from parameters that are the inputs."""
        module = HloModule("rows")
        builder = HloComputation.Builder("rows")
        context = HloCloneContext(module)
        mapping: dict[HloInstruction, HloInstruction] = {}
        for number, value in enumerate(self.inputs):
            mapping[value] = builder.add_instruction(HloInstruction.create_parameter(number, value.shape))
        for old in self.instructions:
            called = [module.deep_clone_computation(c, context) for c in old.called_computations]
            clone = old.clone_with_new_operands(old.shape, [mapping[o] for o in old.operands], called=called)
            mapping[old] = builder.add_instruction(clone)
        root = builder.add_instruction(HloInstruction.create_tuple([mapping[o] for o in self.outputs]))
        module.add_entry_computation(builder.build(root))
        return module


def find_row_regions(computation: HloComputation, is_wanted: Callable[[Shape], bool]) -> list[RowRegion]:
    """Returns regions that have nothing but constants in common, for rows of arrays that are wanted.

    Inputs of one may be outputs of another.
    """
    if not has_opcodes(computation, {"reduce"}):
        return []
    order = computation.make_instruction_post_order()
    reduces = {i for i in order if i.opcode == "reduce" and _is_of_rows(i) and is_wanted(i.operand(0).shape)}
    found: list[RowRegion] = []
    taken: set[HloInstruction] = set()
    position = {i: n for n, i in enumerate(order)} if len(reduces) > 1 else {}
    for last in position:
        if last in reduces and last not in taken:
            region = _region(position, reduces, last, taken)
            if region is not None:
                found.append(region)
                taken.update(i for i in region.instructions if not _is_constant(i))
    return found


def _is_of_rows(reduce: HloInstruction) -> bool:
    if reduce.operand_count != 2 or has_control_dependencies(reduce):
        return False
    shape = reduce.operand(0).shape
    is_last = reduce.attributes_as(DimensionsAttributes).dimensions == (shape.rank - 1,)
    return is_last and _is_plain(shape) and shape.element_type in _TYPES and reduce.shape.is_row_major


def _is_plain(shape: Shape) -> bool:
    return shape.is_static_array and shape.is_row_major


def _may_be_between(instruction: HloInstruction) -> bool:
    return instruction.opcode in _BETWEEN and _is_plain(instruction.shape) and not changes_element_type(instruction)


def _region(
    position: Mapping[HloInstruction, int],
    reduces: set[HloInstruction],
    last: HloInstruction,
    taken: set[HloInstruction],
) -> RowRegion | None:
    """Returns the region of a reduction and of those of the same rows that it needs; None if there is none.

    What other regions have taken is read as any input is.
    """
    rows = last.operand(0).shape
    between = _between(reduces, last, taken)
    if between is None:
        return None
    members = between | {last}
    _add_consumers(members, taken)
    if len(members) > _MOST or any(has_control_dependencies(i) for i in members):
        return None
    if instruction_between(members, position) is not None:
        return None
    for constant in [o for i in members for o in i.operands if _is_constant(o)]:
        members |= {constant, *constant.operands}  # which are copied
    instructions = tuple(sorted(members, key=position.__getitem__))
    inputs = dict.fromkeys(o for i in instructions for o in i.operands if o not in members)
    read = (i for i in instructions if i.is_root() or any(u not in members for u in i.users))
    outputs = tuple(i for i in read if not _is_constant(i))
    if not all(_is_plain(i.shape) for i in (*inputs, *outputs)):
        return None
    return RowRegion(instructions, tuple(inputs), outputs, rows)


def _between(
    reduces: set[HloInstruction], last: HloInstruction, taken: set[HloInstruction]
) -> set[HloInstruction] | None:
    """Returns the reductions of the same rows that `last` needs, and what lies on the way."""
    rows = last.operand(0).shape.dimensions
    leads: dict[HloInstruction, bool] = {}

    def needs_one(i: HloInstruction) -> bool:
        if i not in leads and i not in taken:
            leads[i] = i in reduces and i.operand(0).shape.dimensions == rows
            if not leads[i] and _may_be_between(i) and len(leads) < _MOST:
                ways = [needs_one(o) for o in i.operands]  # all of them are on the way, not the first one alone
                leads[i] = any(ways)
        return leads.get(i, False)

    return {i for i, leading in leads.items() if leading} if needs_one(last.operand(0)) else None


def _add_consumers(members: set[HloInstruction], taken: set[HloInstruction]) -> None:
    """Adds what is computed of members and of what they read alone."""
    known = {o for i in members for o in i.operands}
    stack = list(members)
    while stack and len(members) <= _MOST:
        for user in stack.pop().users:
            if user in members or user in taken or not _may_be_between(user):
                continue
            if all(o in members or o in known or _is_constant(o) for o in user.operands):
                members.add(user)
                stack.append(user)


def _is_constant(i: HloInstruction) -> bool:
    """Whether it is a number, or an array of one number."""
    return (i.opcode == "constant" and i.shape.is_scalar) or (
        i.opcode == "broadcast" and i.operand(0).opcode == "constant" and i.operand(0).shape.is_scalar
    )
