"""Emits a planned fusion: tiles of all operations in the loops; results and wanted intermediates leave the loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import BlockArgument, Operation, OpOperand, OpResult, TensorType, Value
from xjit.linalg_ext.structured import PARALLEL
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, insert_tile
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, is_whole, same_tile, tile_within
from xjit.linalg_ext.transforms.fusion.online_softmax import rescaled
from xjit.linalg_ext.transforms.fusion.plan import FusionPlan, Planned
from xjit.linalg_ext.transforms.tiling.loop_nest import LoopNest

__all__ = ["FusionResult", "Keep", "emit_fusion"]


@dataclass(frozen=True)
class FusionResult:
    """`tiled_ops`: the operations on tiles, roots first. `loops`: outermost first. `fused`: the untiled producers."""

    tiled_ops: tuple[Operation, ...]
    loops: tuple[Operation, ...]
    fused: tuple[Operation, ...] = ()


class Keep(Enum):
    """Which intermediates of a fusion become results of its loops.

    `NONE`; `USED`: those with users behind the loops; `UNALIGNED`: these, and those whose tiles do not start where the
    loops stand, so that iterations share what they compute, as in ByteIR's text; `ALL`.
    """

    NONE = "none"
    USED = "used"
    UNALIGNED = "unaligned"
    ALL = "all"


@dataclass(eq=False)
class _Carried:
    """A result that goes through the loops: written tile by tile into `init`.

    `in_place`: what is empty in the program is a slice of the carried tensor, no tensor of the tile's size.
    """

    result: OpResult
    init: Value
    in_place: bool
    argument: BlockArgument | None = None


@dataclass(eq=False)
class _Emitter:
    """`values`: the tiles of fused results; `tiled`: the operations that give them, None for what was there already.

    `carried`: by result; `written_by`: what goes through the loops, by each fused result that is its init, or the init
    of that.
    """

    plan: FusionPlan
    nest: LoopNest
    carried: dict[OpResult, _Carried]
    values: dict[Value, tuple[Value, Tile]] = field(default_factory=dict)
    tiled: dict[Planned, Operation | None] = field(default_factory=dict)
    written_by: dict[Value, _Carried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for result, each in self.carried.items():
            for init in self.plan.inits_in_nest(self.plan.planned[result.owner], result):
                if init in self.carried and not each.in_place:
                    break
                self.written_by.setdefault(init, each)

    def emit(self, root: Planned) -> None:
        """Emits an operation on its tiles, and producers that are not there yet where their slices would stand."""
        stack: list[tuple[Planned, list[Value]]] = [(root, [])]
        while stack:
            planned, operands = stack[-1]
            number = len(operands)
            if number == len(planned.op.operands):
                self._finish(planned, operands)
                stack.pop()
                continue
            value = planned.op.operands[number]
            if self._is_made_inside(planned, number) and value not in self.values:
                stack.append((self.plan.producer_of(value), []))
            else:
                operands.append(self._operand(planned, number))

    def _is_made_inside(self, planned: Planned, number: int) -> bool:
        """Whether an operand is a tile that an operation of the nest makes."""
        if number not in planned.fused:
            return False
        source = planned.op.operands[number].defining_op
        if source is None or source.name != "tensor.empty":
            return True
        written = [self._written(r) for r in planned.op.results if planned.tilable.init_of(r) == number]
        return not any(each is not None and each.in_place for each in written)

    def _written(self, result: OpResult) -> _Carried | None:
        """What a result is written into, of what goes through the loops."""
        return self.written_by.get(result) or self.carried.get(result)

    def _finish(self, planned: Planned, operands: Sequence[Value]) -> None:
        index, tilable = self.nest.index, planned.tilable
        values = tilable.emit(index, planned.domain, operands)
        for result, value in zip(planned.op.results, values):
            self.values[result] = value, tilable.result_tile(index, result.index, planned.domain)
        self.tiled[planned] = values[0].defining_op

    def _operand(self, planned: Planned, number: int) -> Value:
        value, tile = planned.op.operands[number], planned.operand_tiles[number]
        if tile is None:
            return value
        if not self._is_made_inside(planned, number):
            found = extract_tile(self.nest.builder, self._source(planned, number), tile)
            return self._rescaled(planned, number, found)
        found, of = self.values[value]
        if same_tile(of, tile):
            return found
        part = tile_within(self.nest.index, tile, of)
        assert isinstance(found.type, TensorType)
        return found if is_whole(part, found) else extract_tile(self.nest.builder, found, part)

    def _rescaled(self, planned: Planned, number: int, found: Value) -> Value:
        if planned.rescaled_by is None or number != planned.tilable.init_of(planned.op.results[0]):
            return found
        scale, _ = self.values[planned.rescaled_by.op.results[-1]]
        return rescaled(self.nest.index, scale, found)

    def _source(self, planned: Planned, number: int) -> Value:
        """An operand that no operation of the nest makes; what is written into is the carried tensor."""
        for result in planned.op.results:
            carried = self._written(result)
            if carried is None or planned.tilable.init_of(result) != number:
                continue
            if planned.is_root or planned.accumulates or not planned.tilable.reads_init(result.index):
                assert carried.argument is not None
                return carried.argument
        return planned.op.operands[number]


def emit_fusion(plan: FusionPlan, nest: LoopNest, roots: Sequence[Planned], keep: Keep = Keep.USED) -> FusionResult:
    """Emits the planned operations and closes the loops; uses behind them get their results.

    `keep` tells which intermediates become results of the loops. Untiled operations stay where they are.
    """
    order = sorted(plan.planned.values(), key=lambda p: p.op.block.position(p.op) if p.op.block else 0)
    others = [p for p in reversed(order) if p not in roots]
    for planned in others:
        _redirect_sizes(plan, planned)
    carried: dict[OpResult, _Carried] = {}
    for planned in plan.in_order_of_use(roots):
        for r in planned.op.results:
            if planned in roots or planned.accumulates_in(r) or _is_wanted(plan, nest, r, keep):
                in_place = keep is Keep.UNALIGNED and _is_unaligned(nest, planned, r)
                carried[r] = _Carried(r, _destination(plan, nest, r), in_place and planned not in roots)
    arguments = nest.add_iter_args([c.init for c in carried.values()])
    for each, argument in zip(carried.values(), arguments):
        each.argument = argument
    emitter = _Emitter(plan, nest, carried)
    for planned in (*roots, *reversed(others)):
        if planned not in emitter.tiled:
            emitter.emit(planned)
    yielded: list[Value] = []
    for each in carried.values():
        value, tile = emitter.values[each.result]
        assert each.argument is not None
        yielded.append(insert_tile(nest.builder, value, each.argument, tile))
    loops = nest.close(yielded)
    for result, value in zip(carried, loops[0].results):
        result.replace_uses_if(value, lambda use: use.owner not in plan.planned and _is_behind(use, loops[0]))
    found = [emitter.tiled[p] for p in (*roots, *others)]
    return FusionResult(tuple(t for t in found if t is not None), tuple(loops), tuple(p.op for p in others))


def _is_behind(use: OpOperand, anchor: Operation) -> bool:
    """Whether the user, or what contains it, stands behind `anchor` in its block."""
    user = use.owner
    while user.block is not anchor.block:
        parent = user.parent_op
        if parent is None:
            return False
        user = parent
    return user is not anchor and anchor.is_before(user)


def _is_wanted(plan: FusionPlan, nest: LoopNest, result: OpResult, keep: Keep) -> bool:
    """Whether an intermediate becomes a result of the loops; all of it must be computed in them."""
    planned = plan.planned[result.owner]
    if keep is Keep.NONE or (planned.tilable.init_of(result) is None and not _is_used(plan, nest, result)):
        return False
    kept = keep is Keep.ALL or (keep is Keep.UNALIGNED and _is_unaligned(nest, planned, result))
    if not kept and not _is_used(plan, nest, result):
        return False
    return all(planned.tilable.result_tile(plan.index, result.index, planned.domain).covers)


def _is_unaligned(nest: LoopNest, planned: Planned, result: OpResult) -> bool:
    """Whether the loops of some variable do not start where the variable stands, or at a function of it alone.

    What extension ops give without reading an init, like the scale of a softmax, is never shared between iterations.
    """
    if planned.op.dialect == "linalg_ext" and not planned.tilable.reads_init(result.index):
        return False
    types = planned.tilable.iterator_types
    starts = [start for start, kind in zip(planned.domain.offsets, types) if kind == PARALLEL]
    return not all(nest.runs_once(iv) or any(_depends_only_on(start, iv) for start in starts) for iv in nest.ivs)


def _depends_only_on(index: Index, variable: Value) -> bool:
    """Whether an index is a variable, or `affine.apply` of it alone."""
    op = index.defining_op if isinstance(index, Value) else None
    return index is variable or (op is not None and op.name == "affine.apply" and op.operands == (variable,))


def _is_used(plan: FusionPlan, nest: LoopNest, result: OpResult) -> bool:
    """Whether a result has users behind the loops."""
    anchor = nest.anchor
    others = [u for u in result.uses if u.owner not in plan.planned]
    return any(u.owner is anchor or _is_behind(u, anchor) for u in others)


def _destination(plan: FusionPlan, nest: LoopNest, result: OpResult) -> Value:
    planned = plan.planned[result.owner]
    init = planned.tilable.init_of(result)
    if init is not None and planned.accumulates_in(result):
        return planned.op.operands[init]
    found = plan.final_init(planned, result)
    if found is None:
        return _empty(nest.outer, planned, result)
    kind, source = result.type, found.defining_op
    is_made_in_nest = source is not None and source in plan.planned and source.name != "tensor.empty"
    if is_made_in_nest and isinstance(kind, TensorType) and kind.has_static_shape:
        return create_empty(nest.outer.builder, [n or 0 for n in kind.shape], kind)  # all of it will be written
    return found


def _empty(outer: IndexBuilder, planned: Planned, result: OpResult) -> Value:
    kind = result.type
    assert isinstance(kind, TensorType)
    return create_empty(outer.builder, planned.tilable.extents(outer), kind)


def _redirect_sizes(plan: FusionPlan, planned: Planned) -> None:
    """A result has the size of its init: who asks for the size does not need the result."""
    for result in planned.op.results:
        init = planned.tilable.init_of(result)
        if init is not None:
            value = planned.op.operands[init]
            result.replace_uses_if(value, lambda use: use.owner.name == "tensor.dim" and use.index == 0)
