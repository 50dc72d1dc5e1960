"""Reductions have the layout that follows from their operand's; a copy gives the one that was asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo.types.layout import Layout
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import arrays_of, may_rewrite, reduced_dimensions, result_shapes


@dataclass
class ReduceDecomposer(HloModulePass):
    """Reduces to the order that the kept dimensions have in the operand, and copies to another one that was asked for.

    The copy comes behind a conversion that is the only reader. With `custom_layout_allowed` results keep their layouts.
    Arrays that are reduced together are copied to the first one's layout.
    """

    name = "reduce-decomposer"
    custom_layout_allowed: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Decomposes in every non-fusion computation; True if a reduction changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode == "reduce" and may_rewrite(instruction):
                    changed |= _equalize(instruction)
                    changed |= not self.custom_layout_allowed and _decompose(instruction)
        return changed


def _equalize(reduce: HloInstruction) -> bool:
    first, *others = arrays_of(reduce)
    differing = [n for n, array in enumerate(others, 1) if array.shape.layout != first.shape.layout]
    into = Expansion(reduce)
    for n in differing:
        array = reduce.operand(n)
        reduce.replace_operand_with(n, into.add(_copy(array, array.shape.with_layout(first.shape.layout))))
    return bool(differing)


def _decompose(reduce: HloInstruction) -> bool:
    layout, shapes = _natural_layout(reduce), result_shapes(reduce)
    if all(s.layout == layout for s in shapes):
        return False
    into, natural = Expansion(reduce), [s.with_layout(layout) for s in shapes]
    shape = Shape.tuple_of(natural) if reduce.shape.is_tuple else natural[0]
    new = into.add(reduce.clone_with_new_operands(shape, reduce.operands))
    users = reduce.users
    if reduce.shape.is_tuple:
        elements = [into.element(new, n) for n in range(len(shapes))]
        into.replace_source(into.tuple_of(*(into.add(_copy(e, s)) for e, s in zip(elements, shapes, strict=True))))
    elif len(users) == 1 and not reduce.is_root() and _may_be_moved(users[0]):
        behind = Expansion(users[0])
        converted = behind.add(HloInstruction.create("convert", users[0].shape.with_layout(layout), [new]))
        behind.replace_source(behind.add(_copy(converted, users[0].shape)))
    else:
        into.replace_source(into.like_source("copy", [new]))
    return True


def _natural_layout(reduce: HloInstruction) -> Layout:
    reduced, source = reduced_dimensions(reduce), arrays_of(reduce)[0].shape
    kept = [d for d in range(source.rank) if d not in reduced]
    return Layout(tuple(kept.index(d) for d in source.minor_to_major if d in kept))


def _may_be_moved(convert: HloInstruction) -> bool:
    plain = convert.opcode == "convert" and not has_control_dependencies(convert)
    return plain and convert.shape.layout == convert.operand(0).shape.layout


def _copy(operand: HloInstruction, shape: Shape) -> HloInstruction:
    return HloInstruction.create("copy", shape, [operand])
