"""Products of one matrix by several others as one product."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.ops.shape_inference.dot import free_dimensions
from xjit.passes.analysis.reachability import HloReachability, HloReachabilityMap
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion


@dataclass
class DotMerger(HloModulePass):
    """Joins what dots multiply one operand by, along its only free dimension; each becomes a slice of the product.

    Dots are alike in dimensions, types and precision, and independent. Of those that are joined, one at most takes more
    than `max_size_to_merge` bytes, operands and result together.
    """

    name = "dot-merger"
    opcodes = frozenset({"dot"})
    max_size_to_merge: int = 32 << 20

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Joins in every computation, by the left operand first; True if there were two that go together."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for side in (0, 1):
                changed |= self._merge(module, computation, side)
        return changed

    def _merge(self, module: HloModule, computation: HloComputation, side: int) -> bool:
        kinds: dict[Hashable, list[HloInstruction]] = {}
        for instruction in computation.make_instruction_post_order():
            if instruction.opcode == "dot" and (kind := _kind(instruction, side)) is not None:
                kinds.setdefault(kind, []).append(instruction)
        changed = False
        for alike in kinds.values():
            while len(alike) > 1:
                reachability = analyses.get(HloReachability, module).map(computation)
                group = self._group(alike, reachability)
                alike = [i for i in alike if i not in group]
                if len(group) > 1:
                    _join(group, side)
                    changed = True
        return changed

    def _group(self, alike: list[HloInstruction], reachability: HloReachabilityMap) -> list[HloInstruction]:
        """Returns the first, and those that may be joined with it."""
        group = alike[:1]
        large = sum(_bytes_of(i) > self.max_size_to_merge for i in group)
        for item in alike[1:]:
            is_large = _bytes_of(item) > self.max_size_to_merge
            if large + is_large <= 1 and not any(reachability.is_connected(item, member) for member in group):
                group.append(item)
                large += is_large
        return group


def _bytes_of(dot: HloInstruction) -> int:
    return sum(i.shape.byte_size for i in (dot, *dot.operands))


def _free(dot: HloInstruction, operand: int) -> list[int]:
    a = dot.attributes_as(DotAttributes)
    taken = (a.lhs_batch_dims, a.lhs_contracting_dims) if operand == 0 else (a.rhs_batch_dims, a.rhs_contracting_dims)
    return free_dimensions(dot.operand(operand).shape.rank, *taken)


def _kind(dot: HloInstruction, side: int) -> Hashable | None:
    """What must agree of dots that read one operand on a side; None for one that is left alone."""
    other, free = dot.operand(1 - side), _free(dot, 1 - side)
    shapes = [i.shape for i in (dot, *dot.operands)]
    if len(free) != 1 or not all(s.is_static_array for s in shapes) or has_control_dependencies(dot):
        return None
    sizes = [n for d, n in enumerate(other.shape.dimensions) if d not in free]
    types = (other.shape.element_type, dot.shape.element_type, other.shape.minor_to_major, dot.shape.minor_to_major)
    return (dot.operand(side), dot.attributes, tuple(sizes), types, dot.sharding)


def _join(group: list[HloInstruction], side: int) -> None:
    """Makes one product of several; each gets its part of it."""
    first, into = group[0], Expansion(group[0])
    (free,) = _free(first, 1 - side)
    others = [dot.operand(1 - side) for dot in group]
    joined = into.add(build.concatenate(others, free))
    total = joined.shape.dimensions[free]
    joined.shape = _in_order_of(others[0].shape, joined.shape.dimensions)
    axis = len(first.attributes_as(DotAttributes).lhs_batch_dims)
    axis += 0 if side else len(_free(first, 0))
    sizes = list(first.shape.dimensions)
    sizes[axis] = total
    shape = _in_order_of(first.shape, sizes)
    operands = [first.operand(0), joined] if side == 0 else [joined, first.operand(1)]
    product, start = into.add(first.clone_with_new_operands(shape, operands)), 0
    product.sharding = None
    for dot in group:
        starts, limits = [0] * dot.shape.rank, list(dot.shape.dimensions)
        starts[axis], limits[axis] = start, start + dot.shape.dimensions[axis]
        start = limits[axis]
        part = Expansion(dot)
        cut = build.slice_(product, starts, limits)
        cut.shape = dot.shape
        replace(dot, part.add(cut), part.made)


def _in_order_of(shape: Shape, dimensions: Sequence[int]) -> Shape:
    return Shape.array(shape.element_type, dimensions, shape.minor_to_major)
