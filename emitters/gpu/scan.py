"""reduce-window that is a scan, on GPUs: a warp for each line along memory, else a thread for each line.

The lanes of a warp scan 32 neighbouring elements by shuffles, in five steps, and carry the last one on. Elements are
combined in an order that shapes alone decide. Long lines are cut by `reduce-window-rewriter` before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, delinearize, dim
from xjit.emitters.elemental import RegisterValue, constant_register
from xjit.emitters.fused import FusedIrEmitter, select_register
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.shuffles import shuffle_from, shuffle_up
from xjit.emitters.gpu.threads import Threads, special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.reductions.reduction_loops import flatten, round_promoted, unflatten
from xjit.hlo import attributes as at
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.ops.prefix_scan import prefix_dimension
from xjit.ops.reducers import reduction_identity

THREADS = 256
WARPS = THREADS // WARP_SIZE


def emit_gpu_scan(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a reduce-window that is a scan."""
    return [_Scan(context.for_one_kernel(view.instruction.name), view).emit()]


class _Scan:
    """The code of one thread."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        hero = self._hero = view.hero
        axis = prefix_dimension(hero)
        assert axis is not None, "only scans are planned as such"
        self._axis, self._shape = axis, hero.shape
        window = hero.attributes_as(at.WindowAttributes).window.dimensions[axis]
        self._size, self._is_backwards = window.size, window.padding_high > 0
        self._known = reduction_identity(hero.to_apply)  # what is known may be regrouped
        minor = next((d for d in hero.shape.minor_to_major if hero.shape.dimensions[d] > 1), axis)
        self._by_warps = self._known is not None and minor == axis
        function, leaves, results = context.new_gpu_kernel(view, THREADS)
        self._result = results[0]
        self._nest = LoopNest(context.module, function, context.target)
        self._fused = FusedIrEmitter(self._nest, leaves, context.maps)
        self._threads = Threads(self._nest, THREADS)
        self._combiner = IrEmitterNested(promote=self._known is not None)

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, shape = self._nest, self._shape
        lines = shape.num_elements // self._size
        of_block, own = (WARPS, self._threads.warp) if self._by_warps else (THREADS, self._threads.thread)
        block = special_register(nest, "ctaid.x")
        number = nest.builder.add(nest.builder.mul(block, const_int(I64, of_block)), own)

        def line(_: Sequence[Value]) -> Sequence[Value]:
            index = self._index(bind_index(nest, number, lines))
            self._by_lanes(index) if self._by_warps else self._one_by_one(index)
            return ()

        nest.where(nest.builder.icmp_signed("<", number, const_int(I64, lines)), line)
        finish(nest)
        launch = launch_dimensions(-(-lines // of_block), THREADS)
        traffic, operations = 2 * shape.byte_size, shape.num_elements * (self._hero.to_apply.instruction_count - 2)
        return Kernel(nest.function, launch.num_blocks, 0.0, "scan", traffic, operations, launch=launch)

    def _index(self, line: AffineExpr) -> list[AffineExpr]:
        """The index of a line's elements, but for the place in it. Neighbouring lines are neighbours in memory."""
        sizes = self._shape.dimensions
        others = [d for d in self._shape.minor_to_major[::-1] if d != self._axis]
        parts = delinearize(line, [sizes[d] for d in others]) if others else []
        places = dict(zip(others, parts, strict=True))
        return [self._nest.simplify(places.get(d, constant(0))) for d in range(len(sizes))]

    def _place(self, index: Sequence[AffineExpr], along: AffineExpr) -> tuple[AffineExpr, ...]:
        """The index of the element that comes `along` the scan."""
        along = constant(self._size - 1) - along if self._is_backwards else along
        return tuple(self._nest.simplify(along) if d == self._axis else e for d, e in enumerate(index))

    def _initial(self) -> RegisterValue:
        return self._fused.element(self._hero.operand(1), ())[0]

    def _combined(self, left: RegisterValue, right: RegisterValue) -> RegisterValue:
        return self._combiner.inline(self._nest.builder, self._hero.to_apply, [left, right])[0]

    def _store(self, place: tuple[AffineExpr, ...], value: RegisterValue) -> None:
        rounded = round_promoted(self._nest.builder, [self._shape.element_type], [value])[0]
        self._fused.memory.store(self._result, place, rounded)

    def _one_by_one(self, index: Sequence[AffineExpr]) -> None:
        nest = self._nest
        position = nest.new_variable(self._size)
        start = self._initial()

        def step(now: Sequence[Value]) -> Sequence[Value]:
            place = self._place(index, dim(position))
            pair = unflatten(now, [start])[0], self._fused.element(self._hero.operand(0), place)[0]
            total = self._combined(*(pair[::-1] if self._is_backwards else pair))
            self._store(place, total)
            return flatten([total])

        nest.scalar_loop(position, step, flatten([start]))

    def _by_lanes(self, index: Sequence[AffineExpr]) -> None:
        """Scans 32 elements at a time; lanes behind the end of the line have the identity."""
        nest, threads, size = self._nest, self._threads, self._size
        tile = nest.new_variable(-(-size // WARP_SIZE))
        kind = self._shape.element_type
        assert self._known is not None
        neutral = constant_register(PROMOTED.get(kind, kind), self._known[1])
        start = self._initial()

        def place() -> tuple[AffineExpr, ...]:
            return self._place(index, dim(tile) * WARP_SIZE + bind_index(nest, threads.lane, WARP_SIZE))

        def step(now: Sequence[Value]) -> Sequence[Value]:
            builder = nest.builder
            along = builder.add(nest.index_value(nest.simplify(dim(tile) * WARP_SIZE)), threads.lane)
            exists = builder.icmp_signed("<", along, const_int(I64, size))

            def load(_: Sequence[Value]) -> Sequence[Value]:
                return flatten([self._fused.element(self._hero.operand(0), place())[0]])

            def store(_: Sequence[Value]) -> Sequence[Value]:
                self._store(place(), total)
                return ()

            value = unflatten(nest.where(exists, load, flatten([neutral])), [neutral])[0]
            total = self._combined(unflatten(now, [start])[0], self._scanned(value))
            nest.where(exists, store)
            return [shuffle_from(nest.builder, part, WARP_SIZE - 1) for part in flatten([total])]

        nest.scalar_loop(tile, step, flatten([start]))

    def _scanned(self, value: RegisterValue) -> RegisterValue:
        """Combines the value of each lane with those of the lanes below."""
        builder, distance = self._nest.builder, 1
        while distance < WARP_SIZE:
            below = unflatten([shuffle_up(builder, part, distance) for part in flatten([value])], [value])[0]
            there = builder.icmp_signed(">=", self._threads.lane, const_int(I64, distance))
            value = select_register(builder, there, self._combined(below, value), value)
            distance *= 2
        return value
