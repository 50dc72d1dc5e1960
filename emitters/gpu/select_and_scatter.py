"""select-and-scatter on GPUs: a thread per element of the result goes through the windows that it is in.

Each thread finds out which element such a window picks, and takes the window's value if it is its own. Windows come in
row-major order, as they do on CPUs, and nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, delinearize, dim
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.kernels.windows.window_selection import WindowSelection
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.hlo import attributes as at
from xjit.llvm.types import I1, I64
from xjit.llvm.values import Value, const_int

THREADS = 128
Index = tuple[AffineExpr, ...]


def emit_gpu_select_and_scatter(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of the whole instruction."""
    return [_Gathering(context.for_one_kernel(view.instruction.name), view).emit()]


class _Gathering:
    """The code of one thread."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        hero = self._hero = view.hero
        self._window = hero.attributes_as(at.WindowAttributes).window.dimensions
        self._free = [d for d, w in enumerate(self._window) if w == at.WindowDimension()]
        function, leaves, results = context.new_gpu_kernel(view, THREADS)
        self._result = results[0]
        self._nest = LoopNest(context.module, function, context.target)
        self._fused = FusedIrEmitter(self._nest, leaves, context.maps)
        self._selection = WindowSelection(self._fused, hero, self._free)
        self._combiner = IrEmitterNested()

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, shape = self._nest, self._hero.shape
        builder, count = nest.builder, shape.num_elements
        block = builder.mul(special_register(nest, "ctaid.x"), const_int(I64, THREADS))
        number = builder.add(block, special_register(nest, "tid.x"))

        def element(_: Sequence[Value]) -> Sequence[Value]:
            order = shape.minor_to_major[::-1]
            parts = delinearize(bind_index(nest, number, count), [shape.dimensions[d] for d in order])
            places = dict(zip(order, parts, strict=True))
            self._element(tuple(nest.simplify(places[d]) for d in range(shape.rank)))
            return ()

        nest.where(builder.icmp_signed("<", number, const_int(I64, count)), element)
        finish(nest)
        launch = launch_dimensions(-(-count // THREADS), THREADS)
        work = count
        for window in self._window:
            work *= window.size * -(-window.size // window.stride)
        return Kernel(nest.function, launch.num_blocks, 0.0, "select-and-scatter", 0, work, launch=launch)

    def _element(self, index: Index) -> None:
        """The initial value, and the values of all windows that pick the element."""
        nest = self._nest
        start = self._fused.element(self._hero.operand(2), ())[0]
        moving = [d for d in range(len(index)) if d not in self._free]
        turns = {d: nest.new_variable(-(-self._window[d].size // self._window[d].stride)) for d in moving}

        def window(now: Sequence[Value]) -> Sequence[Value]:
            return self._one_window(index, turns, now, start)

        total = nest.loops(list(turns.values()), window, flatten([start]))
        self._fused.memory.store(self._result, index, unflatten(total, [start])[0])

    def _one_window(
        self, index: Index, turns: dict[int, int], now: Sequence[Value], like: RegisterValue
    ) -> Sequence[Value]:
        """Takes the value of one of the windows that the element may be in, if there is such a window."""
        nest, builder = self._nest, self._nest.builder
        sizes = self._hero.operand(1).shape.dimensions
        places: dict[int, Value] = {}
        inside = const_int(I1, 1)
        for d, turn in turns.items():
            window = self._window[d]
            last = (index[d] + window.padding_low).floordiv(window.stride)
            place = nest.simplify(last - (nest.table.size(turn) - 1) + dim(turn))
            places[d] = nest.index_value(place)
            reach = nest.index_value(nest.simplify(index[d] + window.padding_low - place * window.stride))
            exists = builder.icmp_unsigned("<", places[d], const_int(I64, sizes[d]))
            covers = builder.icmp_signed("<", reach, const_int(I64, window.size))
            inside = builder.and_(inside, builder.and_(exists, covers))

        def taken(values: Sequence[Value]) -> Sequence[Value]:
            at = tuple(bind_index(nest, places[d], sizes[d]) if d in places else index[d] for d in range(len(index)))
            own = nest.index_value(physical_offset(nest.table, self._hero.shape, index))
            is_own = nest.builder.icmp_signed("==", self._selection.chosen(at), own)

            def combine(_: Sequence[Value]) -> Sequence[Value]:
                source = self._fused.element(self._hero.operand(1), at)[0]
                total = unflatten(values, [like])[0]
                return flatten(self._combiner.inline(nest.builder, self._hero.called_computations[1], [total, source]))

            return nest.where(is_own, combine, values)

        return nest.where(inside, taken, now)
