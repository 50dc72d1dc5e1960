"""The loop kernel: one loop nest over the result; each element comes from FusedIrEmitter.

Its units are steps of the outermost loop (whole vectors where that is the only one), part after part as planned by
LoopPlanner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.access_analysis import Index
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.iteration_space import IterationSpace
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView, finish, range_arguments
from xjit.emitters.kernels.loops.loop_plan import LoopPlanner, Part, same_dimensions
from xjit.emitters.loop_levels import TransposeTile
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

NS_PER_BYTE = 0.1
NS_PER_OPERATION = 0.06
MAX_REPEATED_SHARE = 16
"""A kernel runs in one task if more than one part in so many of its work were repeated by each."""


def emit_loop_kernel(context: KernelContext, view: KernelView) -> Kernel:
    """Emits the loop kernel of a view whose results all have the dimensions of the first."""
    return LoopKernel(context, view).emit()


def emit_loop_kernels(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits a loop kernel for all results of the same dimensions: one, but for a few fusions.

    Errors: Unsupported if one root has results of different dimensions.
    """
    if same_dimensions(view.result_shapes):
        return [emit_loop_kernel(context, view)]
    groups: dict[tuple[int, ...], tuple[list[HloInstruction], list[int]]] = {}
    first = 0
    for root in view.roots:
        shapes = [shape for _, shape in root.shape.leaves()]
        if not same_dimensions(shapes):
            message = f"{root.opcode} '{root.name}': results of different dimensions in one kernel"
            raise Unsupported(message, root.span)
        roots, results = groups.setdefault(shapes[0].dimensions, ([], []))
        roots.append(root)
        results += range(first, first + len(shapes))
        first += len(shapes)
    kernels: list[Kernel] = []
    for number, (roots, results) in enumerate(group for sizes, group in groups.items() if 0 not in sizes):
        kernel = LoopKernel(context, view, f".{number}")
        kernel.restrict_to(roots, results)
        kernels.append(kernel.emit())
    return kernels


class LoopKernel(LoopPlanner):
    """State while one loop kernel is emitted."""

    kind = "loop"

    def __init__(self, context: KernelContext, view: KernelView, suffix: str = "") -> None:
        super().__init__(context, view, suffix)
        self.fused = FusedIrEmitter(self.nest, self.leaves, context.maps)

    def restrict_to(self, roots: Sequence[HloInstruction], results: Sequence[int]) -> None:
        """Makes this the kernel of some roots only, which go to those result buffers."""
        self.roots = tuple(roots)
        self.results = [self.results[i] for i in results]
        self.shape = self.results[0].shape

    def emit(self) -> Kernel:
        """Emits the function and returns the kernel."""
        parts = self.plan()
        begin, end = range_arguments(self.function)
        base = 0
        for part in parts:
            if len(parts) == 1:
                self._emit_part(part, begin, end)
            else:
                self._emit_clipped(part, base, begin, end)
            base += part.units
        finish(self.nest)
        traffic = self.traffic()
        cost = traffic * NS_PER_BYTE + self.operations * NS_PER_OPERATION
        repeats = self.repeated * MAX_REPEATED_SHARE > self.operations
        return Kernel(self.function, base, cost, self.kind, traffic, self.operations, repeats)

    def _emit_clipped(self, part: Part, base: int, begin: Value, end: Value) -> None:
        """Emits a part for the units of [begin, end) that fall into it."""
        builder = self.nest.builder
        zero, units = const_int(I64, 0), const_int(I64, part.units)
        low = builder.sub(begin, const_int(I64, base))
        low = builder.select(builder.icmp_signed("<", low, zero), zero, low)
        high = builder.sub(end, const_int(I64, base))
        high = builder.select(builder.icmp_signed(">", high, units), units, high)
        run, skip = builder.append_block("part"), builder.append_block("next")
        builder.cbranch(builder.icmp_signed("<", low, high), run, skip)
        builder.position_at_end(run)
        with self.nest.branch():
            self._emit_part(part, low, high)
        self.nest.builder.br(skip)
        self.nest.builder.position_at_end(skip)

    def _emit_part(self, part: Part, begin: Value, end: Value) -> None:
        space, width = part.space, part.width
        if not space.loops:
            self._store(space.index)
            return
        first = space.loops[0]
        if width and len(space.loops) == 1:
            self._emit_flat(part, first, begin, end)
            return
        inner = self._inner_tiled if part.tiled else self._inner
        self._parallel_loop(first, begin, end, lambda: inner(space, 1, width))

    def _parallel_loop(self, position: int, begin: Value, end: Value, body: Callable[[], object]) -> None:
        """Emits the outermost loop over the units begin .. end - 1."""
        nest = self.nest
        lower = nest.intervals[position].lower
        if lower:
            begin = nest.builder.add(begin, const_int(I64, lower))
            end = nest.builder.add(end, const_int(I64, lower))

        def unit(_: Sequence[Value]) -> Sequence[Value]:
            body()
            return ()

        nest.loop(position, unit, begin=begin, end=end, name="p")

    def _emit_flat(self, part: Part, position: int, begin: Value, end: Value) -> None:
        """One vector loop over everything: units are whole vectors, the last unit takes the tail along."""
        nest, width = self.nest, part.width
        builder = nest.builder
        bounds = nest.intervals[position]
        size = bounds.upper - bounds.lower + 1

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._store(part.space.index)
            return ()

        if size < width:
            nest.vector_loop(position, width, body)
            return
        scale, shift = const_int(I64, width), const_int(I64, bounds.lower)
        first = builder.add(builder.mul(begin, scale), shift)
        last = builder.add(builder.mul(end, scale), shift)
        nest.loop(position, body, begin=first, end=last, step=width, vector_width=width, name="v")
        if size % width:
            builder = nest.builder
            tail, done = builder.append_block("tail"), builder.append_block("done")
            builder.cbranch(builder.icmp_signed("==", end, const_int(I64, part.units)), tail, done)
            builder.position_at_end(tail)
            with nest.branch():
                nest.vector_tail(position, width, body, ())
            nest.builder.br(done)
            nest.builder.position_at_end(done)

    def _inner(self, space: IterationSpace, at_loop: int, width: int) -> Sequence[Value]:
        """Emits loops from `at_loop` on, and the element in the innermost one."""
        nest = self.nest
        if at_loop == len(space.loops):
            self._store(space.index)
            return ()
        position = space.loops[at_loop]
        if width and at_loop == len(space.loops) - 1:
            for accesses in self._accesses(space):
                self.fused.reductions_first(accesses)
            nest.vector_loop(position, width, lambda _: self._inner(space, at_loop + 1, width))
        else:
            nest.scalar_loop(position, lambda _: self._inner(space, at_loop + 1, width))
        return ()

    def _inner_tiled(self, space: IterationSpace, at_loop: int, width: int) -> Sequence[Value]:
        """Emits the loops of a tiled part: the vector loop steps over whole tiles, the last loop is unrolled."""
        nest = self.nest
        position = space.loops[at_loop]
        if at_loop < len(space.loops) - 2:
            nest.scalar_loop(position, lambda _: self._inner_tiled(space, at_loop + 1, width))
            return ()

        def tile(_: Sequence[Value]) -> Sequence[Value]:
            depth = nest.level.depth
            for step in range(width):
                nest.tile = TransposeTile(space.loops[-1], width, depth, step)
                nest.once(space.loops[-1], const_int(I64, step), lambda _: self._element_body(space), (), None)
            nest.tile = None
            return ()

        nest.vector_loop(position, width, tile)
        return ()

    def _element_body(self, space: IterationSpace) -> Sequence[Value]:
        self._store(space.index)
        return ()

    def _store(self, index: Index) -> None:
        """Emits the elements of all results at one index, and stores them."""
        buffers = iter(self.results)
        for root in self.roots:
            for output, _ in enumerate(root.shape.leaves()):
                value, _ = self.fused.element(root, index, output=output)
                self.fused.memory.store(next(buffers), index, value)
