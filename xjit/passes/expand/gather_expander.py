"""gather as a loop of dynamic slices, or as one slice where there is one window."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import GatherAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.expand.index_rows import IndexRows, place_of_row, scalars, without
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer, counted_loop
from xjit.passes.framework.expansion import Expansion

MODES = ("eliminate_all_gathers", "eliminate_simple_gathers")


@dataclass
class GatherExpander(OpExpander):
    """Each step of the loop cuts a window out of the operand and writes it into a row of the result.

    A window that would stick out is moved inside by dynamic-slice as gather moves it. In mode
    `eliminate_simple_gathers` only gathers are expanded that need no loop.
    """

    mode: str = MODES[0]
    name = "gather-expander"
    opcodes = frozenset({"gather"})

    def __post_init__(self) -> None:
        """InvalidArgument for an unknown mode."""
        if self.mode not in MODES:
            raise InvalidArgument(f"mode of {self.name} is one of {', '.join(MODES)}, found '{self.mode}'")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the windows, or None for shapes of unknown size, of no element, or a loop in the mode without."""
        rows, writer = IndexRows.of_gather(instruction), Writer(into)
        operand, indices = instruction.operands
        if not all(i.shape.is_static_array for i in (instruction, operand, indices)):
            return None
        if not instruction.shape.num_elements:
            return None  # for zero-sized-hlo-elimination
        sizes = instruction.attributes_as(GatherAttributes).slice_sizes
        if sizes == operand.shape.dimensions:
            return _whole_operand(writer, instruction)
        if rows.count == 1:
            window = writer.dynamic_slice(operand, rows.only_start(writer, indices), sizes)
            return writer.reshape(window, instruction.shape.dimensions)
        if self.mode != MODES[0] or rows.count >= 1 << 31:
            return None
        return _loop(writer, instruction, rows)


def _gone(attributes: GatherAttributes) -> tuple[int, ...]:
    """Returns the dimensions of a window that the result has not."""
    return (*attributes.collapsed_slice_dims, *attributes.operand_batching_dims)


def _whole_operand(writer: Writer, gather: HloInstruction) -> HloInstruction:
    """Every window is the whole operand, wherever it should start."""
    attributes = gather.attributes_as(GatherAttributes)
    window = writer.reshape(gather.operand(0), without(attributes.slice_sizes, _gone(attributes)))
    return writer.broadcast(window, gather.shape.dimensions, attributes.offset_dims)


def _loop(writer: Writer, gather: HloInstruction, rows: IndexRows) -> HloInstruction:
    attributes = gather.attributes_as(GatherAttributes)
    window = without(attributes.slice_sizes, _gone(attributes))

    def step(body: Writer, counter: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        operand, indices, result = state
        vector = body.broadcast(counter, [1])
        start = scalars(body, rows.start(body, indices, counter, vector))
        cut = body.dynamic_slice(operand, start, attributes.slice_sizes)
        row = body.reshape(body.reshape(cut, window), [1, *window])
        place = place_of_row(body, vector, 1 + len(window))
        return [operand, indices, body.make("dynamic-update-slice", result, row, *place)]

    empty = writer.full(Shape.array(gather.shape.element_type, (rows.count, *window)), 0)
    state = [gather.operand(0), rows.lay_out(writer, gather.operand(1)), empty]
    result = writer.element(counted_loop(writer, "gather", rows.count, state, step), 3)
    whole = writer.reshape(result, [*rows.sizes, *window])
    batch = (d for d in range(gather.shape.rank) if d not in attributes.offset_dims)
    order = [*batch, *attributes.offset_dims]  # result dimension of each dimension of `whole`
    return writer.transpose(whole, [order.index(d) for d in range(len(order))])
