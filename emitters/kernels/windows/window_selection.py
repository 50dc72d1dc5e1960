"""Which element of its operand a window of select-and-scatter picks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.affine import AffineExpr, Interval, dim
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.guards import EVERYWHERE, restrict
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import RegisterValue, constant_register
from xjit.emitters.fused import FusedIrEmitter, select_register
from xjit.emitters.nested import IrEmitterNested, same_width, splat_register
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.ops.indexing.reductions import window_access


class WindowSelection:
    """Goes through the elements of windows, in row-major order, and keeps what `select` prefers.

    Args:
        fused: emits the elements.
        hero: the select-and-scatter.
        free: the dimensions without a window.
    """

    def __init__(self, fused: FusedIrEmitter, hero: HloInstruction, free: Collection[int]) -> None:
        self.fused = fused
        self.nest = fused.nest
        self.operand = hero.operand(0)
        self.shape = hero.shape
        self.kind = self.operand.shape.element_type
        self.select = hero.called_computations[0]
        self.window = hero.attributes_as(at.WindowAttributes).window.dimensions
        self.free = free
        self.nested = IrEmitterNested()

    def chosen(self, index: Index) -> Value:
        """Emits where the element lies that the window at an index of the source picks: an offset, -1 for none."""
        nest = self.nest
        width = nest.vector.width if nest.vector is not None else 0
        none = const_int(I64, -1)
        best = splat_register(nest.builder, constant_register(self.kind, 0), width)
        start = [*flatten([best]), nest.builder.splat(none, width) if width else none]
        *_, place = self._taps(index, [d for d in range(len(index)) if d not in self.free], {}, start, best)
        return place

    def _taps(
        self,
        index: Index,
        remaining: Sequence[int],
        taps: dict[int, AffineExpr],
        state: Sequence[Value],
        like: RegisterValue,
    ) -> Sequence[Value]:
        """The loops over the elements of a window; the state is (chosen value, its place or -1)."""
        if not remaining:
            return self._tap(index, taps, state, like)
        d = remaining[0]
        position = self.nest.new_variable(self.window[d].size)
        return self.nest.scalar_loop(
            position, lambda now: self._taps(index, remaining[1:], {**taps, d: dim(position)}, now, like), state
        )

    def _tap(
        self, index: Index, taps: dict[int, AffineExpr], state: Sequence[Value], like: RegisterValue
    ) -> Sequence[Value]:
        nest = self.nest
        place = list(index)
        conditions: list[tuple[AffineExpr, Interval]] = []
        for d, tap in taps.items():
            place[d], inside = window_access(self.window[d], self.operand.shape.dimensions[d], index[d], tap)
            conditions += inside
        guard = restrict(nest, EVERYWHERE, conditions)
        if guard is None:
            return state
        value, _ = self.fused.element(self.operand, tuple(nest.simplify(e) for e in place), guard)
        builder = nest.builder
        best, old = unflatten(state[:-1], [like])[0], state[-1]
        offset = physical_offset(nest.table, self.shape, place)
        where = self._offset_value(offset, old)
        best, value = same_width(builder, [best, value])
        keep = self.nested.inline(builder, self.select, [best, value])[0]
        assert isinstance(keep, Value)
        keep = keep if keep.type.is_vector or not old.type.is_vector else builder.splat(keep, old.type.width)
        nothing = builder.icmp_signed("<", old, const_int(old.type, 0))
        take = builder.or_(nothing, builder.not_(keep))
        if guard.scalar is not None:
            test = builder.splat(guard.scalar, old.type.width) if old.type.is_vector else guard.scalar
            take = builder.and_(take, test)
        chosen = select_register(builder, take, value, best)
        return [*flatten([chosen]), builder.select(take, where, old)]

    def _offset_value(self, offset: AffineExpr, like: Value) -> Value:
        """The physical offset of a candidate, for all lanes."""
        nest, builder = self.nest, self.nest.builder
        if not like.type.is_vector:
            return nest.index_value(offset)
        if not nest.uses_vector(offset):
            return builder.splat(nest.index_value(offset), like.type.width)
        lanes = nest.lane_values(offset)
        return lanes if lanes.type.elem is I64 else builder.sext(lanes, I64)
