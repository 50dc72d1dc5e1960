"""scatter as a loop that updates one window after the other, or as one update where there is one window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DimensionsAttributes, ScatterAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops import build
from xjit.passes.expand.index_rows import IndexRows, place_of_row, scalars
from xjit.passes.expand.map_inliner import is_elementwise, write_on_arrays
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer, counted_loop
from xjit.passes.framework.expansion import Expansion

MODES = ("eliminate_all_scatters", "eliminate_simple_scatters", "eliminate_indeterministic_scatters")
ORDERLESS = frozenset({"add", "multiply", "and", "or", "xor", "minimum", "maximum"})
"""Integer arithmetic whose result does not depend on the order of updates."""


@dataclass
class ScatterExpander(OpExpander):
    """Each step reads a window of every operand, combines it with its update, and writes it back.

    A window that would stick out is not updated. Windows come in the order of the index array. Mode
    `eliminate_simple_scatters` expands what needs no loop, `eliminate_indeterministic_scatters` what gives other
    results in another order.
    """

    mode: str = MODES[0]
    name = "scatter-expander"
    opcodes = frozenset({"scatter"})

    def __post_init__(self) -> None:
        """InvalidArgument for an unknown mode."""
        if self.mode not in MODES:
            raise InvalidArgument(f"mode of {self.name} is one of {', '.join(MODES)}, found '{self.mode}'")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the updated operand or operands, or None for shapes of unknown size and for what the mode leaves."""
        parts, writer = _Parts(instruction), Writer(into)
        if not all(i.shape.is_static_array for i in instruction.operands) or not self._applies(parts):
            return None
        if not parts.updates[0].shape.num_elements:
            results = list(parts.operands)
        elif parts.rows.count == 1:
            results = parts.only_window(writer)
        elif parts.rows.count < 1 << 31:
            results = parts.loop(writer)
        else:
            return None
        return into.tuple_of(*results) if instruction.shape.is_tuple else results[0]

    def _applies(self, parts: _Parts) -> bool:
        if self.mode == "eliminate_simple_scatters":
            return parts.rows.count == 1
        return self.mode == MODES[0] or not parts.is_deterministic()


class _Parts:
    """One scatter: its operands, index array and updates, and where a window's dimensions are."""

    def __init__(self, scatter: HloInstruction) -> None:
        count = scatter.operand_count // 2
        self.scatter = scatter
        self.attributes = scatter.attributes_as(ScatterAttributes)
        self.rows = IndexRows.of_scatter(scatter)
        self.operands = scatter.operands[:count]
        self.indices = scatter.operand(count)
        self.updates = scatter.operands[count + 1 :]
        update = self.updates[0].shape.dimensions
        kept = iter(update[d] for d in self.attributes.update_window_dims)
        gone = {*self.attributes.inserted_window_dims, *self.attributes.input_batching_dims}
        self.window = [1 if d in gone else next(kept) for d in range(self.operands[0].shape.rank)]
        self.limits = [n - w for n, w in zip(self.operands[0].shape.dimensions, self.window, strict=True)]

    def is_deterministic(self) -> bool:
        """Whether the order of updates does not matter."""
        root = self.scatter.to_apply.root_instruction
        if self.attributes.unique_indices or self.rows.count <= 1:
            return True
        exact = root.shape.is_array and not (root.shape.element_type.is_float or root.shape.element_type.is_complex)
        return exact and root.opcode in ORDERLESS and {o.opcode for o in root.operands} == {"parameter"}

    def only_window(self, writer: Writer) -> list[HloInstruction]:
        """Writes the update of the only window; only starts that are not 0 anyway are checked."""
        start = self.rows.only_start(writer, self.indices)
        inside: list[HloInstruction] = []
        for d in self.rows.mapped:
            kind = start[d].shape.element_type
            inside.append(writer.compare("GE", start[d], writer.constant(0, kind)))
            inside.append(writer.compare("LE", start[d], writer.constant(_held(self.limits[d], kind), kind)))
        valid = inside[0] if inside else None
        for other in inside[1:]:
            valid = writer.make("and", valid or other, other)
        updates = [writer.reshape(u, self.window) for u in self.updates]
        return self._update(writer, self.operands, updates, start, valid)

    def loop(self, writer: Writer) -> list[HloInstruction]:
        """Writes the loop over all windows."""
        rank = self.updates[0].shape.rank
        windows = self.attributes.update_window_dims
        order = [*(d for d in range(rank) if d not in windows), *windows]
        kept = [self.updates[0].shape.dimensions[d] for d in windows]
        rows = [writer.reshape(writer.transpose(u, order), [self.rows.count, *kept]) for u in self.updates]
        state = [*self.operands, self._lay_out(writer), *rows]
        count = len(self.operands)

        def step(body: Writer, counter: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
            vector = body.broadcast(counter, [1])
            place, begin = (
                place_of_row(body, vector, 1 + len(kept)),
                self.rows.start(body, state[count], counter, vector),
            )
            start = scalars(body, begin)
            cut = (body.dynamic_slice(u, place, [1, *kept]) for u in state[count + 1 :])
            updates = [body.reshape(body.reshape(u, kept), self.window) for u in cut]
            valid = self._all_inside(body, begin)
            return [*self._update(body, state[:count], updates, start, valid), *state[count:]]

        loop = counted_loop(writer, "scatter", self.rows.count, state, step)
        return [writer.element(loop, 1 + i) for i in range(count)]

    def _lay_out(self, writer: Writer) -> HloInstruction:
        """Returns the rows; a single entry per row needs no dimension."""
        rows = self.rows.lay_out(writer, self.indices)
        return writer.reshape(rows, [self.rows.count]) if len(self.rows.mapped) == 1 else rows

    def _all_inside(self, body: Writer, start: HloInstruction) -> HloInstruction | None:
        """Returns whether a window is inside of the operand in every dimension; None if there is no dimension."""
        kind, rank = start.shape.element_type, len(self.window)
        if not rank:
            return None
        low = body.compare("LE", body.full(Shape.array(kind, (rank,)), 0), start)
        high = body.compare("GE", body.constant([_held(n, kind) for n in self.limits], kind), start)
        both = body.make("and", low, high)
        reducer = body.into.embed(build.make_binary_computation("and", PrimitiveType.PRED))
        init = body.constant(True, PrimitiveType.PRED)
        return body.add(build.make_reduce(both, init, (0,), reducer))

    def _update(
        self,
        writer: Writer,
        operands: Sequence[HloInstruction],
        updates: Sequence[HloInstruction],
        start: Sequence[HloInstruction],
        valid: HloInstruction | None,
    ) -> list[HloInstruction]:
        """Returns the operands with one window combined with its updates, if `valid`."""
        old = [writer.dynamic_slice(o, start, self.window) for o in operands]
        new = self._combine(writer, [*old, *updates])
        if valid is not None:
            mask = writer.broadcast(valid, self.window) if self.window else valid
            new = [writer.make("select", mask, n, o) for n, o in zip(new, old, strict=True)]
        return [writer.make("dynamic-update-slice", o, n, *start) for o, n in zip(operands, new, strict=True)]

    def _combine(self, writer: Writer, arrays: Sequence[HloInstruction]) -> list[HloInstruction]:
        """Returns what the scatter's computation makes of windows and updates, element by element."""
        computation, window = self.scatter.to_apply, tuple(self.window)
        parameters = [p.shape.element_type for p in computation.parameter_instructions]
        operands = [writer.convert(a, kind) for a, kind in zip(arrays, parameters, strict=True)]
        root = computation.root_instruction
        if is_elementwise(computation):
            shape = Shape.array(PrimitiveType.PRED, window)
            clones = write_on_arrays(writer.add, computation, operands, shape)
            results = [clones[r] for r in (root.operands if root.opcode == "tuple" else [root])]
        else:
            over = DimensionsAttributes(tuple(range(len(window))))
            results = [
                writer.make("map", *operands, attributes=over, called=[self._output(writer, i)])
                for i in range(len(self.operands))
            ]
        return [writer.convert(r, o.shape.element_type) for r, o in zip(results, self.operands, strict=True)]

    def _output(self, writer: Writer, index: int) -> HloComputation:
        """Returns the scatter's computation, or one that returns only an element of its tuple."""
        computation = self.scatter.to_apply
        root = computation.root_instruction
        if not root.shape.is_tuple:
            return computation
        builder = HloComputation.Builder(f"{computation.name}_{index}")
        parameters = [
            builder.add_instruction(HloInstruction.create_parameter(i, p.shape, p.name))
            for i, p in enumerate(computation.parameter_instructions)
        ]
        call = builder.add_instruction(build.make("call", *parameters, called=[computation], shape=root.shape))
        builder.add_instruction(HloInstruction.create_get_tuple_element(call, index))
        return writer.into.embed(builder.build())


def _held(value: int, kind: PrimitiveType) -> int:
    """Returns the value, or the largest of an integer type if it is beyond that."""
    return min(value, int(np.iinfo(kind.dtype).max))
