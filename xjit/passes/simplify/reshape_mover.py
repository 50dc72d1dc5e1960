"""Reshapes and transposes move behind the elementwise operations that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal
from xjit.hlo.attributes import ConstantAttributes, DimensionsAttributes
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.algebra.dimensions import kept_dimensions


@dataclass
class ReshapeMover(HloModulePass):
    """Computes elementwise operations whose operands are rearranged alike before they are rearranged.

    Operands that are no reshape or transpose must be rearranged easily: constants, random numbers that nobody else
    reads, broadcasts of scalars and those whose dimensions a transpose leaves in order. Where
    `reshape_of_1d_broadcast_is_cheap`, they may also be broadcasts that are reshaped if these are of vectors, or the
    reshape leaves their own dimensions as they are. Nothing moves that would have to stay for another reader as well.
    """

    name = "reshape-mover"
    reshape_of_1d_broadcast_is_cheap: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Moves until nothing more can be moved; True if anything was."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            while self._move_in(computation):
                changed = True
        return changed

    def _move_in(self, computation: HloComputation) -> bool:
        order = computation.make_instruction_post_order()
        candidates = self._without_staying_rearranges({i: None for i in order if self._is_candidate(i)})
        for instruction in candidates:
            rearrange = next(o for o in instruction.operands if self._is_rearrange(o))
            _sink(instruction, rearrange)
        return bool(candidates)

    def _is_candidate(self, instruction: HloInstruction) -> bool:
        """Whether all operands of an elementwise operation are rearranged alike, or can be."""
        if not instruction.operand_count or instruction.opcode == "fusion" or not instruction.is_elementwise():
            return False
        if instruction.is_dead() or has_control_dependencies(instruction) or instruction.has_side_effect():
            return False
        if not all(o.shape.same_dimensions(instruction.shape) for o in instruction.operands):
            return False
        first = next((o for o in instruction.operands if self._is_rearrange(o)), None)
        return first is not None and all(
            _are_equivalent(o, first) or self._is_easily_rearranged(o, first) for o in instruction.operands
        )

    def _is_rearrange(self, value: HloInstruction) -> bool:
        """Whether this is a reshape or transpose of something that cannot be rearranged itself."""
        if value.opcode not in ("reshape", "transpose") or not value.operand(0).shape.is_static_array:
            return False
        if value.shape == value.operand(0).shape and (value.opcode == "reshape" or _is_identity(value)):
            return False
        return not has_control_dependencies(value) and not self._is_easily_rearranged(value.operand(0), value)

    def _is_easily_rearranged(self, value: HloInstruction, rearrange: HloInstruction) -> bool:
        if has_control_dependencies(value) or not value.shape.is_static_array:
            return False
        if value.opcode == "rng":
            return value.user_count == 1
        if value.opcode == "broadcast":
            source = value.operand(0).shape
            if rearrange.opcode == "reshape" and source.rank and not self.reshape_of_1d_broadcast_is_cheap:
                return False
            is_vector = rearrange.opcode == "reshape" and sum(size != 1 for size in source.dimensions) <= 1
            return _is_in_order(value) and (is_vector or _placed_before(value, rearrange) is not None)
        return value.opcode == "constant"

    def _without_staying_rearranges(self, candidates: dict[HloInstruction, None]) -> list[HloInstruction]:
        """Drops, again and again, the candidates whose rearranges have readers that are no candidates."""
        while True:
            rearranges = dict.fromkeys(o for c in candidates for o in c.operands if self._is_rearrange(o))
            staying = {r for r in rearranges if r.is_root() or any(u not in candidates for u in r.users)}
            kept = {c: None for c in candidates if staying.isdisjoint(c.operands)}
            if len(kept) == len(candidates):
                return list(kept)
            candidates = kept


def _are_equivalent(value: HloInstruction, other: HloInstruction) -> bool:
    return (
        value.opcode == other.opcode
        and value.shape.same_dimensions(other.shape)
        and value.operand(0).shape.same_dimensions(other.operand(0).shape)
        and (value.opcode == "reshape" or _permutation(value) == _permutation(other))
        and not has_control_dependencies(value)
    )


def _placed_before(broadcast: HloInstruction, rearrange: HloInstruction) -> tuple[int, ...] | None:
    """Returns the dimensions of a broadcast that is rearranged to one; None if there is none such, in order."""
    placed = broadcast.attributes_as(DimensionsAttributes).dimensions
    if not placed:
        return ()
    if rearrange.opcode == "transpose":
        order = _permutation(rearrange)
        before = tuple(order[d] for d in placed)
        return before if list(before) == sorted(before) else None
    if rearrange.opcode != "reshape" or not rearrange.shape.num_elements:
        return None
    kept = kept_dimensions(rearrange.shape.dimensions, rearrange.operand(0).shape.dimensions)
    return tuple(kept[d] for d in placed) if all(d in kept for d in placed) else None


def _is_in_order(broadcast: HloInstruction) -> bool:
    placed = broadcast.attributes_as(DimensionsAttributes).dimensions
    return list(placed) == sorted(placed)


def _is_identity(transpose: HloInstruction) -> bool:
    return _permutation(transpose) == tuple(range(transpose.shape.rank))


def _permutation(transpose: HloInstruction) -> tuple[int, ...]:
    return transpose.attributes_as(DimensionsAttributes).dimensions


def _sink(instruction: HloInstruction, rearrange: HloInstruction) -> None:
    """Replaces an operation by the same one on what its operands were before they were rearranged."""
    into = Expansion(instruction)
    source = rearrange.operand(0).shape
    operands = [
        o.operand(0) if _are_equivalent(o, rearrange) else _rearranged_back(into, o, rearrange)
        for o in instruction.operands
    ]
    shape = source.with_dimensions(source.dimensions).with_element_type(instruction.shape.element_type)
    moved = instruction.clone_with_new_operands(shape, operands)
    moved.sharding = None
    if moved.opcode == "map":
        moved.attributes = DimensionsAttributes(tuple(range(shape.rank)))  # it runs over all of them
    into.add(moved)
    into.replace_source(into.like_source(rearrange.opcode, [moved], rearrange.attributes))


def _rearranged_back(into: Expansion, value: HloInstruction, rearrange: HloInstruction) -> HloInstruction:
    """Returns what gives a value if it is rearranged."""
    dimensions = rearrange.operand(0).shape.dimensions
    shape = value.shape.with_dimensions(dimensions)
    placed = _placed_before(value, rearrange) if value.opcode == "broadcast" else None
    if placed is not None:
        return into.add(HloInstruction.create("broadcast", shape, value.operands, DimensionsAttributes(placed)))
    if value.opcode == "broadcast":
        return into.add(HloInstruction.create("reshape", shape, [value]))
    if value.opcode == "rng":
        return into.add(value.clone_with_new_operands(shape, value.operands))
    array = value.attributes_as(ConstantAttributes).literal.array
    if rearrange.opcode == "reshape":
        return into.constant(Literal(shape, np.reshape(array, dimensions)))
    back = _inverse(_permutation(rearrange))
    return into.constant(Literal(shape, np.transpose(array, back)))


def _inverse(permutation: Iterable[int]) -> list[int]:
    order = list(permutation)
    return [order.index(d) for d in range(len(order))]
