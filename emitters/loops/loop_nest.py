"""Kernels as explicit loop nests.

A `LoopNest` writes one LLVM function. Its parts are the table of its variables (`variables`), what they are bound to
(`bindings`), the open levels (`loop_levels`) and the values of index expressions (`index_values`); the loops are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.loops.bindings import Bindings
from xjit.emitters.loops.index_values import IndexValues
from xjit.emitters.loops.loop_levels import LoopLevel, LoopLevels, TransposeTile, VectorVariable
from xjit.emitters.loops.variables import VariableTable
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import I1, I64, vector
from xjit.llvm.values import Value, const_int, const_vector

Accumulators = Sequence[Value]
LoopBody = Callable[[Accumulators], Sequence[Value]]


class LoopNest:
    """Builds the body of one function from nested loops, and offers what its parts can do."""

    def __init__(
        self,
        module: Module,
        function: Function,
        target: Target,
        builder: IRBuilder | None = None,
        table: VariableTable | None = None,
    ) -> None:
        self.module = module
        self.function = function
        self.target = target
        self.tile: TransposeTile | None = None  # the one in force (see xjit.emitters.access.transpose_tile)
        self.table = table or VariableTable()
        self.new_variable = self.table.new_variable
        self.intervals = self.table.intervals
        self.simplify = self.table.simplify
        self.interval = self.table.interval
        opened = LoopLevels(builder or IRBuilder(function.append_block("entry")))
        self.levels = opened.stack
        self.at_depth = opened.at_depth
        self.branch = opened.branch
        self.lookup = opened.lookup
        self.bindings = Bindings()
        self.bind = self.bindings.bind
        self.bind_lanes = self.bindings.bind_lanes
        self.depth_of = self.bindings.depth_of
        values = IndexValues(self.table, opened, self.bindings)
        self.uses_vector = values.uses_vector
        self.lane_pattern = values.lane_pattern
        self.lane_constants = values.lane_constants
        self.index_value = values.index_value
        self.has_lane_values = values.has_lane_values
        self.lane_values = values.lane_values

    @property
    def level(self) -> LoopLevel:
        """The innermost open level."""
        return self.levels[-1]

    @property
    def builder(self) -> IRBuilder:
        """Where the innermost level's code goes."""
        return self.levels[-1].builder

    @property
    def vector(self) -> VectorVariable | None:
        """The vector variable in force at the innermost level."""
        return self.levels[-1].vector

    def loop(
        self,
        position: int,
        body: LoopBody,
        accumulators: Accumulators = (),
        begin: Value | None = None,
        end: Value | None = None,
        step: int = 1,
        vector_width: int = 0,
        name: str = "i",
        more: Callable[[Value], Value] | None = None,
    ) -> list[Value]:
        """Emits `for (v = begin; v < end; v += step)`; `body` gets the accumulators and returns their next values.

        The loop runs at least once: begin < end must hold. Returns the accumulators after the loop. With a
        `vector_width`, v is the vector variable inside, all lanes present. `more` emits, behind the body, whether there
        is a step for the next value, which may be `end`.
        """
        bounds = self.intervals[position]
        begin = begin or const_int(I64, bounds.lower)
        end = end or const_int(I64, bounds.upper + 1)
        outer = self.level
        header = self.function.append_block(f"{name}.loop")
        builder = IRBuilder(header)
        counter = builder.phi(I64, name=name)
        phis = [builder.phi(a.type, name="acc") for a in accumulators]
        vector_variable = VectorVariable(position, vector_width) if vector_width else outer.vector
        inner = LoopLevel(outer.depth + 1, builder, vector_variable)
        self.levels.append(inner)
        self.bind(position, counter, inner.depth)
        results = list(body(phis))
        following = builder.add(counter, const_int(I64, step), nsw=True, nuw=True)
        again = builder.icmp_signed("<", following, end)
        if more is not None:
            again = builder.and_(again, more(following))
        self.levels.pop()
        latch = builder.block
        exit_block = self.function.append_block(f"{name}.end")
        builder.cbranch(again, header, exit_block)
        outer.builder.br(header)  # only now: code may have been placed in front of the loop meanwhile
        counter.add_incoming(begin, outer.builder.block)
        counter.add_incoming(following, latch)
        for phi, start, result in zip(phis, accumulators, results, strict=True):
            phi.add_incoming(start, outer.builder.block)
            phi.add_incoming(result, latch)
        outer.builder.position_at_end(exit_block)
        return results

    def once(
        self, position: int, value: Value, body: LoopBody, accumulators: Accumulators, vector: VectorVariable | None
    ) -> list[Value]:
        """Emits the body once, on a level of its own, with the variable bound to a value (loops of one trip, tails)."""
        outer = self.level
        inner = LoopLevel(outer.depth + 1, outer.builder, vector or outer.vector)
        self.levels.append(inner)
        self.bind(position, value, inner.depth)
        results = list(body(accumulators))
        self.levels.pop()
        return results

    def where(self, condition: Value, body: LoopBody, accumulators: Accumulators = ()) -> list[Value]:
        """Emits the body on a level of its own, done if `condition` (i1) holds; else accumulators stay."""
        outer = self.level
        then = self.function.append_block("then")
        builder = IRBuilder(then)
        self.levels.append(LoopLevel(outer.depth + 1, builder, outer.vector))
        results = list(body(accumulators))
        self.levels.pop()
        last = builder.block
        after = self.function.append_block("join")
        builder.br(after)
        outer.builder.cbranch(condition, then, after)  # only now: code may have been placed in front meanwhile
        before = outer.builder.block
        outer.builder.position_at_end(after)
        pairs = zip(results, accumulators, strict=True)
        return [outer.builder.phi(done.type, [(done, last), (start, before)], "acc") for done, start in pairs]

    def scalar_loop(self, position: int, body: LoopBody, accumulators: Accumulators = ()) -> list[Value]:
        """Emits a loop over all values of a variable, one at a time; nothing for an empty range."""
        bounds = self.intervals[position]
        if bounds.is_empty:
            return list(accumulators)
        if bounds.lower == bounds.upper:
            return self.once(position, const_int(I64, bounds.lower), body, accumulators, None)
        return self.loop(position, body, accumulators)

    def vector_loop(self, position: int, width: int, body: LoopBody, accumulators: Accumulators = ()) -> list[Value]:
        """Emits a loop over all values of a variable, `width` at a time; the rest runs once more under a mask."""
        bounds = self.intervals[position]
        if bounds.is_empty:
            return list(accumulators)
        size = bounds.upper - bounds.lower + 1
        whole = size - size % width
        results = list(accumulators)
        if whole > width:
            end = const_int(I64, bounds.lower + whole)
            results = self.loop(position, body, results, end=end, step=width, vector_width=width, name="v")
        elif whole:
            full = VectorVariable(position, width)
            results = self.once(position, const_int(I64, bounds.lower), body, results, full)
        if size != whole:
            results = self.vector_tail(position, width, body, results)
        return results

    def loops(
        self, positions: Sequence[int], body: LoopBody, accumulators: Accumulators = (), vector_width: int = 0
    ) -> list[Value]:
        """Emits loops over all values of some variables, outermost first; with a `vector_width` the last is a vector
        loop.
        """
        if not positions:
            return list(body(accumulators))
        rest = positions[1:]

        def inner(values: Accumulators) -> Sequence[Value]:
            return self.loops(rest, body, values, vector_width)

        if vector_width and not rest:
            return self.vector_loop(positions[0], vector_width, inner, accumulators)
        return self.scalar_loop(positions[0], inner, accumulators)

    def interleaved_vector_loop(
        self, position: int, width: int, chains: int, body: LoopBody, accumulators: Accumulators
    ) -> list[Value]:
        """Emits a vector loop whose steps take turns at `chains` sets of accumulators, so they do not wait for another.

        `accumulators` are the sets one after the other; `body` gets one set. The first set also takes what is left
        over by whole rounds.
        """
        bounds = self.intervals[position]
        size = bounds.upper - bounds.lower + 1
        count = len(accumulators) // chains
        round_size = width * chains
        whole = size - size % round_size
        sets = [list(accumulators[i * count : (i + 1) * count]) for i in range(chains)]

        def turns(values: Accumulators) -> list[Value]:
            first = self.bindings.value(position)
            results: list[Value] = []
            for i in range(chains):
                start = self.builder.add(first, const_int(I64, i * width), nsw=True) if i else first
                own = values[i * count : (i + 1) * count]
                results += self.once(position, start, body, own, VectorVariable(position, width))
            return results

        if whole:
            end = const_int(I64, bounds.lower + whole)
            values = self.loop(position, turns, accumulators, end=end, step=round_size, name="r")
            sets = [values[i * count : (i + 1) * count] for i in range(chains)]
        rest = size % round_size
        if rest >= width:
            begin, end = (const_int(I64, bounds.lower + n) for n in (whole, size - size % width))
            sets[0] = self.loop(position, body, sets[0], begin, end, width, width, name="v")
        if size % width:
            sets[0] = self.vector_tail(position, width, body, sets[0])
        return [value for own in sets for value in own]

    def vector_tail(self, position: int, width: int, body: LoopBody, accumulators: Accumulators) -> list[Value]:
        """Emits the masked last step of a vector loop over all values of a variable."""
        bounds = self.intervals[position]
        rest = (bounds.upper - bounds.lower + 1) % width
        mask = const_vector(vector(I1, width), [lane < rest for lane in range(width)])
        start = const_int(I64, bounds.upper + 1 - rest)
        return self.once(position, start, body, accumulators, VectorVariable(position, width, mask, rest))
