"""The epilogue of a dot or convolution: what its fusion computes from each element, on tiles that the multiplication
hands over while they are in the cache.

The code is that of FusedIrEmitter; the hero's elements come from the tile, rounded to the hero's type as if they had
been stored and loaded. All results lie in memory as the hero's would: the pass that makes such fusions sees to it, by
their indexing maps.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xjit.affine import AffineExpr, dim
from xjit.affine.reshape import delinearize
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.memory import Buffer
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import round_to_type
from xjit.emitters.fused import Element, FusedIrEmitter
from xjit.emitters.gemm.blocking.result_space import ResultSpace
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.epilogue import EPILOGUE_PARAMS
from xjit.emitters.gemm.packing.conversions import convert
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.view import KernelView, lanes_for
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.schedule.schedule import NS_PER_OPERATION
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm import LLVMType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import is_narrow_float, load_convert
from xjit.llvm.function import Function
from xjit.llvm.types import I8, I64, PTR, VOID, vector
from xjit.llvm.values import Value, const_int, zero

Buffers = Mapping[HloInstruction, Buffer]


@dataclass(frozen=True, slots=True)
class HeroTypes:
    """How the hero's elements come: summed in `compute`, rounded to `storage` (the type of its array)."""

    compute: LLVMType
    storage: LLVMType


@dataclass(frozen=True, slots=True)
class FusedResult:
    """Where a multiplication puts its sums (None: scratch memory), and the closure it hands them to (None: nowhere)."""

    out: Value | None
    closure: Value | None


def emit_result(
    context: KernelContext,
    view: KernelView,
    space: ResultSpace,
    types: HeroTypes,
    builder: IRBuilder,
    leaves: Buffers,
    results: Sequence[Buffer],
    sums: int | None,
) -> FusedResult:
    """Emits the epilogue of a view, if it has one; `builder` stands in the kernel, which calls the multiplication.

    Its sums are kept in result number `sums`, else in scratch memory.
    """
    if view.roots == (view.hero,):
        return FusedResult(results[0].pointer, None)
    read = {i: b for i, b in leaves.items() if i not in view.leaves or _is_read(i, view)}
    pointers = [*(b.pointer for i, b in read.items() if i in view.leaves), *(b.pointer for b in results)]
    name = context.module.unique_name(f"{builder.function.name}.epilogue")
    function = context.module.add_function(name, VOID, EPILOGUE_PARAMS, linkage="internal")
    _EpilogueEmitter(context, view, space, types, function).emit(read, results)
    closure = builder.alloca(I64, 1 + len(pointers), align=8, name="closure")
    for slot, pointer in enumerate((function.value, *pointers)):
        builder.store(pointer, builder.gep(I64, closure, const_int(I64, slot)), align=8)
    return FusedResult(None if sums is None else results[sums].pointer, closure)


def epilogue_cost(view: KernelView) -> float:
    """Returns an estimate of the epilogue's time in one thread, in nanoseconds."""
    if view.roots == (view.hero,):
        return 0.0
    return len(view.epilogue) * view.hero.shape.num_elements * NS_PER_OPERATION


def _is_read(leaf: HloInstruction, view: KernelView) -> bool:
    prologue = {view.hero, *view.prologue}
    return leaf in view.roots or any(user not in prologue for user in leaf.users)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The arguments of the epilogue's function."""

    closure: Value
    sums: Value
    sums_row: Value
    batch: Value
    first_row: Value
    rows: Value
    first_column: Value
    columns: Value


class _EpilogueEmitter:
    """State while one epilogue is emitted: `void(closure, tile)`, see EPILOGUE_PARAMS."""

    def __init__(
        self, context: KernelContext, view: KernelView, space: ResultSpace, types: HeroTypes, function: Function
    ) -> None:
        self.view = view
        self.hero = view.hero
        self.space = space
        self.types = types
        self.maps = context.maps
        self.tile = _Tile(*function.args)
        self.nest = LoopNest(context.module, function, context.target)
        sizes = (space.num_batches, space.num_rows, space.num_columns)
        self.batch, self.row, self.column = (self.nest.new_variable(size) for size in sizes)
        self.offset = self.nest.simplify(space.offset(dim(self.batch), dim(self.row), dim(self.column)))
        boundary = (*(leaf for leaf in view.leaves if leaf.shape.rank), self.hero, *view.roots)
        self.width = lanes_for(context.target, [i.shape.element_type for i in boundary])

    def emit(self, leaves: Buffers, results: Sequence[Buffer]) -> None:
        """Emits the function for buffers whose pointers, those of the leaves first, are in the closure."""
        nest, tile = self.nest, self.tile
        nest.bind(self.batch, tile.batch, 0)
        slot = 0
        bound: dict[HloInstruction, Buffer] = {}
        for instruction, buffer in leaves.items():
            if instruction in self.view.leaves:
                slot += 1
                bound[instruction] = Buffer(buffer.shape, self._pointer(slot))
            else:  # a constant of the module
                bound[instruction] = buffer
        targets = [Buffer(b.shape, self._pointer(slot + 1 + i)) for i, b in enumerate(results)]
        fused = FusedIrEmitter(nest, bound, self.maps)
        end = nest.builder.add(tile.first_row, tile.rows)

        def one_row(_: Sequence[Value]) -> Sequence[Value]:
            self._emit_row(fused, targets)
            return ()

        nest.loop(self.row, one_row, begin=tile.first_row, end=end, name="row")
        nest.builder.ret_void()

    def _pointer(self, slot: int) -> Value:
        builder = self.nest.builder
        return builder.load(PTR, builder.gep(I64, self.tile.closure, const_int(I64, slot)), align=8)

    def _emit_row(self, fused: FusedIrEmitter, targets: Sequence[Buffer]) -> None:
        """Whole vectors, then the last columns of the result if the tile has them."""
        nest, tile, width = self.nest, self.tile, self.width
        builder = nest.builder
        row = builder.sub(self._value(self.row), tile.first_row)
        sums = builder.gep(I8, tile.sums, builder.mul(row, tile.sums_row), inbounds=False)

        def vector_of(_: Sequence[Value]) -> Sequence[Value]:
            self._emit_elements(fused, sums, targets)
            return ()

        if self.space.num_columns == 1:  # the offset of an element has no column then: it is no vector
            nest.loop(self.column, vector_of, name="column")
            return
        whole = builder.and_(tile.columns, const_int(I64, -width))
        rest = self.space.num_columns % width
        if self.space.num_columns >= width:
            with _when(nest, builder.icmp_signed("!=", whole, const_int(I64, 0))):
                end = nest.builder.add(tile.first_column, whole)
                nest.loop(
                    self.column, vector_of, begin=tile.first_column, end=end, step=width, vector_width=width, name="v"
                )
        if rest:
            with _when(nest, nest.builder.icmp_signed("!=", whole, tile.columns)):
                nest.vector_tail(self.column, width, vector_of, ())

    def _emit_elements(self, fused: FusedIrEmitter, sums: Value, targets: Sequence[Buffer]) -> None:
        """Computes and stores one vector of every result; the hero's elements are read before anything is stored."""
        hero, own = self._hero_element(sums), self._index_in(self.hero.shape)

        def given(index: Index) -> Element:
            # where pixels lie scattered, the place of an index is not simplified to the offset that it was made of
            if index != own and physical_offset(self.nest.table, self.hero.shape, index) != self.offset:
                raise AssertionError(f"the epilogue of {self.hero.name} reads elements beside its own")
            return hero

        fused.foreign[self.hero] = given
        values = [fused.element(root, self._index_in(root.shape)) for root in self.view.roots]
        for root, buffer, (value, _) in zip(self.view.roots, targets, values, strict=True):
            fused.memory.store(buffer, self._index_in(root.shape), value)

    def _hero_element(self, sums: Value) -> Element:
        nest, types = self.nest, self.types
        lanes = nest.vector
        builder = nest.builder
        column = builder.sub(self._value(self.column), self.tile.first_column)
        place = builder.gep(types.compute, sums, column)
        kind = types.compute if lanes is None else vector(types.compute, lanes.width)
        align = size_of(types.compute)
        if lanes is None or lanes.mask is None:
            value = builder.load(kind, place, align=align)
        else:
            value = builder.masked_load(kind, place, lanes.mask, align, zero(kind))
        element_type = self.hero.shape.element_type
        if is_narrow_float(element_type):  # rounded as elements are, also where the CPU cannot convert f16
            return round_to_type(builder, element_type, value), nest.level.depth
        stored = convert(builder, value, types.storage)
        return load_convert(builder, element_type, stored), nest.level.depth

    def _value(self, position: int) -> Value:
        return self.nest.index_value(dim(position))

    def _index_in(self, shape: Shape) -> tuple[AffineExpr, ...]:
        """The logical index of the element at `offset` in an array of that shape."""
        order = shape.minor_to_major[::-1]
        indices = delinearize(self.offset, [shape.dimensions[d] for d in order])
        by_dimension = dict(zip(order, indices, strict=True))
        return tuple(self.nest.simplify(by_dimension[d]) for d in range(shape.rank))


@contextmanager
def _when(nest: LoopNest, condition: Value) -> Generator[None]:
    """Code that runs if a condition holds; what it computes is forgotten behind it."""
    builder = nest.builder
    run, after = builder.append_block("columns"), builder.append_block("next")
    builder.cbranch(condition, run, after)
    builder.position_at_end(run)
    with nest.branch():
        yield
    nest.builder.br(after)
    nest.builder.position_at_end(after)
