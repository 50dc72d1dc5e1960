"""Long scans as scans of tiles, a scan of the tiles' totals, and both combined: more of it can be done at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.attributes import Window, WindowAttributes, WindowDimension
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.layout import Layout
from xjit.ops import build
from xjit.ops.prefix_scan import prefix_dimension, starts_with_identity
from xjit.ops.reducers import reduction_identity
from xjit.passes.expand.matrices import working_type
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.base import has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.mapped_scan import mapped_scan

MAX_LINES = 4096
"""So many lines keep a GPU busy without being cut."""


@dataclass
class ReduceWindowRewriter(OpExpander):
    """Rewrites a reduce-window that is a scan of more than `base_length` elements.

    Sums are taken in another order. With `by_map` scans of any reducer, inclusive and exclusive ones and those of
    several arrays have XLA's form, in which a map combines what is before a tile with what is in it; where tiles are
    many, a further run tiles the scan of their last elements. Else scans by one known operation are combined by it, and
    floats below 32 bits in f32. With `eliminate_rank_1`, arrays of one dimension get a second one, of size 1, for
    windows that are no long scans.
    """

    base_length: int = 1024
    eliminate_rank_1: bool = True
    by_map: bool = True
    name = "reduce-window-rewriter"
    opcodes = frozenset({"reduce-window"})

    def __post_init__(self) -> None:
        """InvalidArgument for tiles of less than two elements."""
        if self.base_length < 2:
            raise InvalidArgument(f"base_length of {self.name} is at least 2, found {self.base_length}")

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites; True if something changed. By maps, what is made is left for another run."""
        if not self.by_map:
            return super().run_impl(module, execution_threads)
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in [i for i in computation.instructions if i.opcode == "reduce-window"]:
                if not has_control_dependencies(instruction) and self.instruction_matches_pattern(instruction):
                    changed |= self._rewritten_by_map(instruction)
        return changed

    def _rewritten_by_map(self, instruction: HloInstruction) -> bool:
        into = Expansion(instruction)
        result = mapped_scan(instruction, into, self.base_length)
        if result is None and self.eliminate_rank_1:
            result = _of_rank_2(instruction, into)
        if result is not None:
            into.replace_source(result)
        return result is not None

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the scan, or the windows of rank 2; None for other windows, and for lines that are short, or many."""
        axis, shape = prefix_dimension(instruction), instruction.shape
        if axis is None:
            return _of_rank_2(instruction, into) if self.eliminate_rank_1 else None
        if not shape.is_static_array or shape.dimensions[axis] <= self.base_length:
            return None
        if not starts_with_identity(instruction) or shape.num_elements // shape.dimensions[axis] >= MAX_LINES:
            return None
        known = reduction_identity(instruction.to_apply)
        assert known is not None, "its initial value is the identity"
        kind, writer = working_type(shape.element_type), Writer(into)
        reducer = into.embed(build.make_binary_computation(known[0], kind))
        window = instruction.attributes_as(WindowAttributes).window.dimensions[axis]
        init = writer.convert(instruction.operand(1), kind)
        scan = PrefixScan(writer, init, reducer, self.base_length, window.padding_high > 0)
        return writer.convert(scan.of(writer.convert(instruction.operand(0), kind), axis), shape.element_type)


def _of_rank_2(instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
    """The same windows of columns of width 1, for one array or several; None for more dimensions."""
    count = instruction.operand_count // 2
    data, inits = instruction.operands[:count], instruction.operands[count:]
    if any(o.shape.rank != 1 or not o.shape.is_static_array for o in data):
        return None
    columns = [into.make("reshape", o, shape=_column(o.shape)) for o in data]
    given = instruction.attributes_as(WindowAttributes).window.dimensions
    attributes = WindowAttributes(Window((*given, WindowDimension())))
    shapes = [_column(shape) for _, shape in instruction.shape.leaves()]
    new = HloInstruction.create(
        "reduce-window",
        Shape.tuple_of(shapes) if instruction.shape.is_tuple else shapes[0],
        [*columns, *inits],
        attributes,
        instruction.called_computations,
    )
    window = into.add(new)
    if not instruction.shape.is_tuple:
        return into.like_source("reshape", [window])
    elements = [into.element(window, n) for n in range(count)]
    lines = [into.make("reshape", e, shape=s) for e, s in zip(elements, instruction.shape.tuple_shapes, strict=True)]
    return into.tuple_of(*lines)


def _column(shape: Shape) -> Shape:
    return shape.with_dimensions([*shape.dimensions, 1]).with_layout(Layout((0, 1)))


@dataclass(frozen=True)
class PrefixScan:
    """A scan by an operation."""

    writer: Writer
    init: HloInstruction
    reducer: HloComputation
    base_length: int
    is_backwards: bool

    def of(self, x: HloInstruction, axis: int) -> HloInstruction:
        """Returns the scan along a dimension."""
        writer, sizes = self.writer, x.shape.dimensions
        size, tile = sizes[axis], self.base_length
        if size <= tile:
            return self._window(x, axis)
        tiles = -(-size // tile)
        outer, inner = sizes[:axis], sizes[axis + 1 :]
        x = (
            self._padded(x, axis, tiles * tile - size, 0)
            if self.is_backwards
            else self._padded(x, axis, 0, tiles * tile - size)
        )
        x = self._window(writer.reshape(x, [*outer, tiles, tile, *inner]), axis + 1)
        end = 0 if self.is_backwards else tile - 1
        totals = writer.reshape(part(writer, x, axis + 1, end, end + 1), [*outer, tiles, *inner])
        before = self.of(totals, axis)
        before = self._padded(before, axis, -1, 1) if self.is_backwards else self._padded(before, axis, 1, -1)
        kept = [d for d in range(len(sizes) + 1) if d != axis + 1]
        repeated = writer.broadcast(before, x.shape.dimensions, kept)
        x = writer.make(self.reducer.root_instruction.opcode, repeated, x)
        x = writer.reshape(x, [*outer, tiles * tile, *inner])
        start = tiles * tile - size if self.is_backwards else 0
        return part(writer, x, axis, start, start + size)

    def _padded(self, x: HloInstruction, axis: int, low: int, high: int) -> HloInstruction:
        """Adds initial values at the ends of a dimension, or takes elements away."""
        if not low and not high:
            return x
        padding = [(low, high, 0) if d == axis else (0, 0, 0) for d in range(x.shape.rank)]
        return self.writer.add(build.pad(x, self.init, padding))

    def _window(self, x: HloInstruction, axis: int) -> HloInstruction:
        """The reduce-window that is the scan."""
        size = x.shape.dimensions[axis]
        low, high = (0, size - 1) if self.is_backwards else (size - 1, 0)
        own = WindowDimension(size=size, padding_low=low, padding_high=high)
        window = Window(tuple(own if d == axis else WindowDimension() for d in range(x.shape.rank)))
        return self.writer.make(
            "reduce-window", x, self.init, attributes=WindowAttributes(window), called=[self.reducer]
        )


def part(writer: Writer, x: HloInstruction, axis: int, start: int, limit: int) -> HloInstruction:
    """Returns some elements along a dimension, or all."""
    sizes = x.shape.dimensions
    if (start, limit) == (0, sizes[axis]):
        return x
    starts = [start if d == axis else 0 for d in range(len(sizes))]
    return writer.slice(x, starts, [limit if d == axis else n for d, n in enumerate(sizes)])
