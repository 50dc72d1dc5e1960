"""The program's part of a product with scores: from a strip of tiles to what is multiplied, or taken the softmax of.

The code is that of FusedIrEmitter. Elements of the products come from the tiles, rounded to their types as if they had
been stored and loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.memory import Buffer
from xjit.emitters.attention.joint_block import CONDITION_PARAMS
from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES
from xjit.emitters.elemental import round_to_type
from xjit.emitters.fused import Element, FusedIrEmitter
from xjit.emitters.gemm.epilogue import EPILOGUE_PARAMS
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.function import Function
from xjit.llvm.types import I1, I8, I64, PTR, VOID, vector
from xjit.llvm.values import Value, const_int, constant, zero
from xjit.passes.analysis.attention.masks import RowBound
from xjit.passes.analysis.attention.places import Place
from xjit.passes.analysis.attention.statistics import Statistic

IDENTITIES = {"add": 0.0, "maximum": -math.inf}
"""What statistics are before the first score, by their opcodes."""
_PADDING = 64


@dataclass(frozen=True, slots=True)
class ScoreElements:
    """What is computed: `wanted` of what is `given`, number by number in place of that, `plane_bytes` apart.

    Places are over variables that `index_of` gives for the number of a batch, a row and a column. `statistics` are
    known of each column, in memory that closures hold.
    """

    num_batches: int
    rows: int
    columns: int
    index_of: Callable[[AffineExpr, AffineExpr, AffineExpr], Mapping[int, AffineExpr]]
    given: Sequence[Place]
    wanted: Sequence[Place]
    plane_bytes: int
    statistics: Sequence[Statistic] = ()

    @property
    def statistic_numbers(self) -> int:
        """Numbers from one statistic of all columns to the next."""
        return -(-self.columns // _PADDING) * _PADDING

    @property
    def is_trivial(self) -> bool:
        """Whether what is given is what is wanted."""
        return list(self.wanted) == list(self.given[: len(self.wanted)]) and all(
            place.instruction.shape.element_type.bit_width == 32 for place in self.wanted
        )


def emit_score_elements(
    context: KernelContext,
    view: KernelView,
    elements: ScoreElements,
    nest: LoopNest,
    leaves: Mapping[HloInstruction, Buffer],
    memory: Value | None = None,
) -> Value:
    """Emits the function and, where `nest` stands, a closure of it; null if the tiles are what is wanted."""
    if elements.is_trivial:
        return zero(PTR)
    name = context.module.unique_name(f"{nest.function.name}.scores")
    function = context.module.add_function(name, VOID, EPILOGUE_PARAMS, linkage="internal")
    _ScoreEmitter(context, view, elements, function).emit(leaves)
    return _closure(nest, function, view, leaves, memory)


def emit_condition(
    context: KernelContext,
    view: KernelView,
    elements: ScoreElements,
    condition: RowBound | None,
    nest: LoopNest,
    leaves: Mapping[HloInstruction, Buffer],
    memory: Value | None = None,
) -> Value:
    """Emits whether a condition holds for a block of scores, see `CONDITION_PARAMS`, and a closure of that; null if
    there is none.
    """
    if condition is None:
        return zero(PTR)
    name = context.module.unique_name(f"{nest.function.name}.condition")
    function = context.module.add_function(name, I64, CONDITION_PARAMS, linkage="internal")
    scores = _Scores(context, view, elements, function, [n for _, n in CONDITION_PARAMS])
    fused = scores.emitter_of_elements(leaves)
    inner, args = scores.nest, scores.args
    is_of_rows = any(e.uses_dim(scores.row) for e in scores.place(condition.place))
    position, kind = (scores.row, "row") if is_of_rows else (scores.column, "column")
    end = inner.builder.add(args[f"first_{kind}"], args[f"{kind}s"])

    least: Value = constant(COMPUTE, condition.least)
    if condition.slope:
        scores_add = inner.builder.fmul(args["score_bound"], constant(COMPUTE, condition.slope))
        least = inner.builder.fadd(least, scores_add)

    def one(holds: Sequence[Value]) -> Sequence[Value]:
        value, _ = fused.element(condition.place.instruction, scores.place(condition.place))
        assert isinstance(value, Value)
        above = inner.builder.fcmp_ordered(">", value, least)
        return [inner.builder.and_(holds[0], above)]

    start = [const_int(I1, 1)]
    (holds,) = inner.loop(position, one, start, begin=args[f"first_{kind}"], end=end, name=kind)
    inner.builder.ret(inner.builder.zext(holds, I64))
    return _closure(nest, function, view, leaves, memory)


def _closure(
    nest: LoopNest,
    function: Function,
    view: KernelView,
    leaves: Mapping[HloInstruction, Buffer],
    memory: Value | None,
) -> Value:
    """A function and the pointers to all operands, and to the statistics, where `nest` stands."""
    builder = nest.builder
    closure = builder.alloca(I64, 2 + len(view.leaves), align=8, name="closure")
    pointers = function.value, *(leaves[leaf].pointer for leaf in view.leaves), zero(PTR) if memory is None else memory
    for slot, pointer in enumerate(pointers):
        builder.store(pointer, builder.gep(I64, closure, const_int(I64, slot)), align=8)
    return closure


class _Scores:
    """A function that is called with a closure, the number of a batch, and rows and columns of scores."""

    def __init__(
        self,
        context: KernelContext,
        view: KernelView,
        elements: ScoreElements,
        function: Function,
        params: Sequence[str],
    ) -> None:
        self.view = view
        self.elements = elements
        self.width = context.target.vector_width(COMPUTE)
        self.maps = context.maps
        self.args = args = dict(zip(params, function.args, strict=True))
        self.nest = nest = LoopNest(context.module, function, context.target)
        sizes = elements.num_batches, elements.rows, elements.columns
        self.batch, self.row, self.column = (nest.new_variable(size) for size in sizes)
        self.index = elements.index_of(dim(self.batch), dim(self.row), dim(self.column))
        nest.bind(self.batch, args["batch"], 0)

    def place(self, place: Place) -> Index:
        """The index of an element over the variables of the nest."""
        return tuple(self.nest.simplify(substitute(e, self.index)) for e in place.index)

    def emitter_of_elements(self, leaves: Mapping[HloInstruction, Buffer]) -> FusedIrEmitter:
        """Returns what emits elements, of buffers whose pointers are in the closure."""
        nest = self.nest
        bound = dict(leaves)  # constants of the module are as they are
        for slot, leaf in enumerate(self.view.leaves):
            place = nest.builder.gep(I64, self.args["closure"], const_int(I64, 1 + slot))
            bound[leaf] = Buffer(leaves[leaf].shape, nest.builder.load(PTR, place, align=8))
        fused = FusedIrEmitter(nest, bound, self.maps)
        for number, statistic in enumerate(self.elements.statistics):
            self._give_statistic(fused, number, statistic)
        return fused

    def statistic_place(self, number: int) -> Value:
        """Where a statistic of the current column lies."""
        builder = self.nest.builder
        slot = builder.gep(I64, self.args["closure"], const_int(I64, 1 + len(self.view.leaves)))
        first = const_int(I64, number * self.elements.statistic_numbers)
        column = self.nest.index_value(dim(self.column))
        return builder.gep(COMPUTE, builder.load(PTR, slot, align=8), builder.add(first, column))

    def _give_statistic(self, fused: FusedIrEmitter, number: int, statistic: Statistic) -> None:
        """Makes what is in memory the elements of a reduction."""
        nest = self.nest
        expected = self.place(statistic.place)

        def given(index: Index) -> Element:
            if index != expected:
                raise AssertionError(f"{statistic.place.instruction.name} is read beside its own place")
            place = self.statistic_place(number)
            kind = COMPUTE if nest.vector is None else vector(COMPUTE, self.width)
            return nest.builder.load(kind, place, align=COMPUTE_BYTES), nest.level.depth

        fused.foreign[statistic.place.instruction] = given

    def give_tiles(self, fused: FusedIrEmitter, scores: Value) -> Value:
        """Makes vectors of what is given its elements; returns where the first is of a row's `scores`."""
        builder = self.nest.builder
        column = builder.sub(self.nest.index_value(dim(self.column)), self.args["first_column"])
        place = builder.gep(COMPUTE, scores, column)
        for number, given in enumerate(self.elements.given):
            address = builder.gep(I8, place, const_int(I64, number * self.elements.plane_bytes))
            self._give(fused, given, builder.load(vector(COMPUTE, self.width), address, align=COMPUTE_BYTES))
        return place

    def _give(self, fused: FusedIrEmitter, given: Place, value: Value) -> None:
        """Makes a vector the elements of an instruction, rounded to their type."""
        nest = self.nest
        element_type = given.instruction.shape.element_type
        element: Element = round_to_type(nest.builder, element_type, value), nest.level.depth
        expected = self.place(given)

        def element_at(index: Index) -> Element:
            if index != expected:
                raise AssertionError(f"scores of {given.instruction.name} are read beside their own place")
            return element

        fused.foreign[given.instruction] = element_at

    def scores_of_row(self) -> Value:
        """Where the current row of the tile lies."""
        builder, args = self.nest.builder, self.args
        row = builder.sub(self.nest.index_value(dim(self.row)), args["first_row"])
        return builder.gep(I8, args["tile"], builder.mul(row, args["tile_row"]), inbounds=False)

    def for_columns(self, body: Callable[[], None]) -> None:
        """Whole vectors, then the last columns if the tile has them."""
        nest, args, width = self.nest, self.args, self.width

        def vector_of(_: Sequence[Value]) -> Sequence[Value]:
            body()
            return ()

        whole = nest.builder.and_(args["columns"], const_int(I64, -width))
        first = args["first_column"]

        def whole_vectors(_: Sequence[Value]) -> Sequence[Value]:
            end = nest.builder.add(first, whole)
            nest.loop(self.column, vector_of, begin=first, end=end, step=width, vector_width=width, name="v")
            return ()

        def tail(_: Sequence[Value]) -> Sequence[Value]:
            nest.vector_tail(self.column, width, vector_of, ())
            return ()

        if self.elements.columns >= width:
            nest.where(nest.builder.icmp_signed("!=", whole, const_int(I64, 0)), whole_vectors)
        if self.elements.columns % width:
            nest.where(nest.builder.icmp_signed("!=", whole, args["columns"]), tail)


class _ScoreEmitter(_Scores):
    """State while one function is emitted: `void(closure, tile)`, see EPILOGUE_PARAMS; scores replace the tile."""

    def __init__(self, context: KernelContext, view: KernelView, elements: ScoreElements, function: Function) -> None:
        super().__init__(context, view, elements, function, [n for _, n in EPILOGUE_PARAMS])

    def emit(self, leaves: Mapping[HloInstruction, Buffer]) -> None:
        """Emits the function."""
        nest, args = self.nest, self.args
        fused = self.emitter_of_elements(leaves)
        end = nest.builder.add(args["first_row"], args["rows"])

        def one_row(_: Sequence[Value]) -> Sequence[Value]:
            scores = self.scores_of_row()
            self.for_columns(lambda: self._emit_elements(fused, scores))
            return ()

        nest.loop(self.row, one_row, begin=args["first_row"], end=end, name="row")
        nest.builder.ret_void()

    def _emit_elements(self, fused: FusedIrEmitter, scores: Value) -> None:
        """Computes one vector of scores; the tiles' elements are read before it is stored."""
        nest = self.nest
        place = self.give_tiles(fused, scores)
        values = [fused.splat(fused.element(w.instruction, self.place(w)), self.width) for w in self.elements.wanted]
        for number, value in enumerate(values):
            assert isinstance(value, Value)
            address = nest.builder.gep(I8, place, const_int(I64, number * self.elements.plane_bytes))
            nest.builder.store(value, address, align=COMPUTE_BYTES)


def emit_level(
    context: KernelContext,
    view: KernelView,
    elements: ScoreElements,
    level: int,
    nest: LoopNest,
    leaves: Mapping[HloInstruction, Buffer],
    memory: Value,
) -> Value:
    """Emits what adds a strip of scores to the statistics of a level, and a closure of it."""
    name = context.module.unique_name(f"{nest.function.name}.level")
    function = context.module.add_function(name, VOID, EPILOGUE_PARAMS, linkage="internal")
    _LevelEmitter(context, view, elements, function, level).emit(leaves)
    return _closure(nest, function, view, leaves, memory)


class _LevelEmitter(_Scores):
    """State while one function is emitted: the rows of a strip are summed in registers, then added to what is known."""

    def __init__(
        self, context: KernelContext, view: KernelView, elements: ScoreElements, function: Function, level: int
    ) -> None:
        super().__init__(context, view, elements, function, [n for _, n in EPILOGUE_PARAMS])
        self.statistics = [(n, s) for n, s in enumerate(elements.statistics) if s.level == level]

    def emit(self, leaves: Mapping[HloInstruction, Buffer]) -> None:
        """Emits the function."""
        fused = self.emitter_of_elements(leaves)
        self.for_columns(lambda: self._emit_columns(fused))
        self.nest.builder.ret_void()

    def _emit_columns(self, fused: FusedIrEmitter) -> None:
        nest, args, kind = self.nest, self.args, vector(COMPUTE, self.width)

        def one_row(sums: Sequence[Value]) -> Sequence[Value]:
            self.give_tiles(fused, self.scores_of_row())
            return [
                self._combined(s.opcode, old, self._value(fused, s))
                for (_, s), old in zip(self.statistics, sums, strict=True)
            ]

        start = [constant(kind, IDENTITIES[s.opcode]) for _, s in self.statistics]
        end = nest.builder.add(args["first_row"], args["rows"])
        sums = nest.loop(self.row, one_row, start, begin=args["first_row"], end=end, name="row")
        for (number, statistic), value in zip(self.statistics, sums, strict=True):
            place = self.statistic_place(number)
            old = nest.builder.load(kind, place, align=COMPUTE_BYTES)
            nest.builder.store(self._combined(statistic.opcode, old, value), place, align=COMPUTE_BYTES)

    def _value(self, fused: FusedIrEmitter, statistic: Statistic) -> Value:
        reduced = statistic.reduced
        value = fused.splat(fused.element(reduced.instruction, self.place(reduced)), self.width)
        assert isinstance(value, Value)
        return value

    def _combined(self, opcode: str, a: Value, b: Value) -> Value:
        builder = self.nest.builder
        if opcode == "add":
            return builder.fadd(a, b)
        return builder.select(builder.fcmp_ordered(">", b, a), b, a)
