"""The kernels of a sort that work on tiles in shared memory: all steps on the operands, or the end of a later step."""

from __future__ import annotations

from collections.abc import Callable

from xjit.affine import AffineExpr, constant
from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.shared_memory import SharedMemory
from xjit.emitters.gpu.sort.lines import SortLines, Values
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index, scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.sort_network import SortNetwork, register_parts
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

_ZERO, _ONE = const_int(I64, 0), const_int(I64, 1)
Visit = Callable[[AffineExpr, AffineExpr, Value], None]
"""Called with the line and the place of an element, and its place in shared memory."""


def emit_tile_sort(context: GpuKernelContext, view: KernelView, network: SortNetwork) -> Kernel:
    """Emits the first kernel: tiles of the operands become sorted tiles of the results."""
    tile = _Tile(SortLines(context, view, network, ""))

    def passes(builder: StructuredBuilder) -> None:
        steps = builder.loop(_ONE, const_int(I64, network.bits + 1), name="step")
        with steps as step, builder.loop(_ZERO, step, name="pass") as number:
            bit = builder.sub(builder.sub(step, number), _ONE)
            distance = builder.shl(_ONE, bit)
            mirror = builder.sub(builder.shl(distance, _ONE), _ONE)
            is_first = builder.icmp_signed("==", number, _ZERO)
            tile.compare(builder, bit, builder.select(is_first, mirror, distance))

    return tile.emit(passes, network.bits * (network.bits + 1) // 2, from_operands=True)


def emit_tile_merge(context: GpuKernelContext, view: KernelView, network: SortNetwork) -> Kernel:
    """Emits the last kernel of a step: distances within tiles are what is left of it."""
    tile = _Tile(SortLines(context, view, network, ".near"))

    def passes(builder: StructuredBuilder) -> None:
        with builder.loop(_ZERO, const_int(I64, network.bits), name="pass") as number:
            bit = builder.sub(const_int(I64, network.bits - 1), number)
            tile.compare(builder, bit, builder.shl(_ONE, bit))

    return tile.emit(passes, network.bits, from_operands=False)


class _Tile:
    """The tile (or the lines) of a block."""

    def __init__(self, lines: SortLines) -> None:
        network, nest = lines.network, lines.nest
        self._lines = lines
        self._network = network
        self._nest = nest
        shared = SharedMemory(lines.module, lines.function)
        parts = [part for operand in lines.view.hero.operands for part in register_parts(operand)]
        self._arrays = [shared.allocate(part, network.block_elements) for part in parts]
        block = bind_index(nest, lines.block, network.blocks)
        several = network.tiles == 1
        self._first_line = block * network.lines_per_block if several else block.floordiv(network.tiles)
        self._first_place = constant(0) if several else block.mod(network.tiles) * (1 << network.bits)

    def emit(self, passes: Callable[[StructuredBuilder], None], comparisons: int, from_operands: bool) -> Kernel:
        """Emits the loads, the passes, the stores."""
        lines, nest = self._lines, self._nest

        def load(line: AffineExpr, place: AffineExpr, position: Value) -> None:
            self._put(nest.builder, position, lines.load(line, place, from_operands))

        def store(line: AffineExpr, place: AffineExpr, position: Value) -> None:
            lines.store(line, place, self._get(nest.builder, position))

        self._each(load)
        with structured(nest) as builder:
            passes(builder)
        emit_barrier(nest.builder)
        self._each(store)
        return lines.finished(self._network.blocks, comparisons)

    def compare(self, builder: StructuredBuilder, bit: Value, mask: Value) -> None:
        """Orders the pairs of elements whose places differ by `mask`, whose highest bit is number `bit`."""
        lines, network = self._lines, self._network
        pairs = const_int(I64, network.block_elements // 2)
        below = builder.sub(builder.shl(_ONE, bit), _ONE)
        emit_barrier(builder)
        with builder.loop(lines.thread, pairs, network.threads, name="pair") as pair:
            low = builder.and_(pair, below)
            first = builder.add(builder.shl(builder.sub(pair, low), _ONE), low)
            second = builder.xor(first, mask)
            with builder.when(self._exists(builder, second)):
                a, b = self._get(builder, first), self._get(builder, second)
                with builder.when(lines.is_before(builder, b, a)):
                    self._put(builder, first, b)
                    self._put(builder, second, a)

    def _exists(self, builder: IRBuilder, position: Value) -> Value:
        """Whether there is an element for a place in shared memory."""
        network, nest = self._network, self._nest
        place = builder.and_(position, const_int(I64, (1 << network.bits) - 1))
        line = builder.lshr(position, const_int(I64, network.bits))
        inside = self._below(builder, place, nest.index_value(self._first_place), network.size)
        of_line = self._below(builder, line, nest.index_value(self._first_line), network.lines)
        return builder.and_(inside, of_line)

    def _below(self, builder: IRBuilder, number: Value, start: Value, end: int) -> Value:
        return builder.icmp_signed("<", builder.add(start, number), const_int(I64, end))

    def _each(self, visit: Visit) -> None:
        """Visits the thread's elements. Neighbouring threads have neighbouring ones, along lines or across them."""
        network, nest = self._network, self._nest
        tile, several = 1 << network.bits, network.lines_per_block
        end = const_int(I64, network.block_elements)
        with structured(nest) as builder:
            own = builder.loop(self._lines.thread, end, network.threads, name="own")
            with own as number, scope(nest, builder):
                element = bind_index(nest, number, network.block_elements)
                across = not network.is_contiguous
                line = element.mod(several) if across else element.floordiv(tile)
                place = element.floordiv(several) if across else element.mod(tile)
                position = nest.index_value(nest.simplify(line * tile + place))
                with builder.when(self._exists(builder, position)), scope(nest, builder):
                    visit(nest.simplify(self._first_line + line), nest.simplify(self._first_place + place), position)

    def _put(self, builder: IRBuilder, position: Value, values: Values) -> None:
        for array, part in zip(self._arrays, flatten(values), strict=True):
            array.store(builder, position, part)

    def _get(self, builder: IRBuilder, position: Value) -> Values:
        return unflatten([array.load(builder, position) for array in self._arrays], self._lines.like)
