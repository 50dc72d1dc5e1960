"""What the kernels of a scatter have in common: where an element of the updates goes, and the function of a thread.

The updates are rows of elements: a row has one index vector, the start of its window, and an element for each place in
the window. Rows are numbered in row-major order of the indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExpr, constant, delinearize
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index, here, index_to_i64
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.cpu.scatter import ScatterDimensions
from xjit.llvm.types import I1, I64
from xjit.llvm.values import Value, const_int

THREADS = 256
Index = tuple[AffineExpr, ...]
Starts = Mapping[int, Value]
"""Where a window starts, by the dimensions of the result that an index moves it along."""


class ScatterUpdates:
    """The function of one kernel of a scatter, for one thread, and the rows that it goes through."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        scatter = self.scatter = view.hero
        count = scatter.operand_count // 2
        self.kind = scatter.operand(0).shape.element_type
        self.dimensions = ScatterDimensions.of(scatter)
        self.shape = scatter.operand(count + 1).shape
        self.row_sizes = [self.shape.dimensions[d] for d in self.dimensions.scatter_dims]
        self.window_dims = [d for d in self.shape.minor_to_major[::-1] if d not in self.dimensions.scatter_dims]
        self._indices, self._updates = scatter.operand(count), scatter.operands[count + 1 :]
        context = context.for_one_kernel(f"{view.instruction.name}.update")
        self.function, leaves, self.results = context.new_gpu_kernel(view, THREADS)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.fused = FusedIrEmitter(self.nest, leaves, context.maps)

    @property
    def window_size(self) -> int:
        """Elements of a row."""
        sizes = [self.shape.dimensions[d] for d in self.window_dims]
        return self.shape.num_elements // self.num_rows if sizes else 1

    @property
    def num_rows(self) -> int:
        """Rows of the updates."""
        total = 1
        for size in self.row_sizes:
            total *= size
        return total

    def thread(self) -> Value:
        """Emits the number of the thread among those of all blocks."""
        block = self.nest.builder.mul(special_register(self.nest, "ctaid.x"), const_int(I64, THREADS), nsw=True)
        return self.nest.builder.add(block, special_register(self.nest, "tid.x"), nsw=True)

    def index(self, row: AffineExpr, element: AffineExpr) -> Index:
        """The index of an element of the updates, given its row, and its place in it in the order of memory."""
        of_row = delinearize(row, self.row_sizes) if self.row_sizes else []
        sizes = [self.shape.dimensions[d] for d in self.window_dims]
        of_window = delinearize(element, sizes) if sizes else []
        places = dict(zip((*self.dimensions.scatter_dims, *self.window_dims), (*of_row, *of_window), strict=True))
        return tuple(self.nest.simplify(places[d]) for d in range(self.shape.rank))

    def starts(self, index: Index) -> tuple[Starts, Value]:
        """Emits where the window of an element's row starts, and whether all of it is inside of the result."""
        nest, dimensions = self.nest, self.dimensions
        starts: dict[int, Value] = {}
        inside = const_int(I1, 1)
        for d, component in enumerate(dimensions.components):
            if component is not None:
                starts[d] = self._start(index, component)
                limit = const_int(I64, dimensions.limits[d])
                inside = nest.builder.and_(inside, nest.builder.icmp_unsigned("<=", starts[d], limit))
        return starts, inside

    def _start(self, index: Index, component: int) -> Value:
        of = self.dimensions.index_of
        place = tuple(index[of[k]] if k in of else constant(component) for k in range(self._indices.shape.rank))
        raw, depth = self.fused.element(self._indices, place)
        assert isinstance(raw, Value)
        return index_to_i64(self.nest.levels[depth].builder, raw, self._indices.shape.element_type)

    def place(self, starts: Starts, index: Index) -> Index:
        """Returns where an element goes whose window starts there, and is inside."""
        place: list[AffineExpr] = []
        for d, limit in enumerate(self.dimensions.limits):
            window, batch = self.dimensions.windows[d], self.dimensions.batches[d]
            moving = window if window is not None else batch
            start = bind_index(self.nest, starts[d], max(2, limit + 1)) if d in starts else constant(0)
            place.append(self.nest.simplify(start + (index[moving] if moving is not None else 0)))
        return tuple(place)

    def updates(self, index: Index) -> list[RegisterValue]:
        """Emits an element of each array of updates."""
        return [self.fused.element(update, index)[0] for update in self._updates]

    def load(self, place: Index) -> list[RegisterValue]:
        """Emits an element of each result."""
        return [self.fused.memory.load(result, place, here(self.nest)) for result in self.results]

    def store(self, place: Index, values: Sequence[RegisterValue]) -> None:
        """Emits the stores of an element of each result."""
        for result, value in zip(self.results, values, strict=True):
            self.fused.memory.store(result, place, value)

    def finished(self, threads: int) -> Kernel:
        """Ends the function; returns the kernel, with so many threads in all."""
        finish(self.nest)
        launch = launch_dimensions(-(-threads // THREADS), THREADS)
        traffic, work = 2 * self.shape.byte_size, self.shape.num_elements
        return Kernel(self.function, launch.num_blocks, 0.0, "scatter", traffic, work, launch=launch)
