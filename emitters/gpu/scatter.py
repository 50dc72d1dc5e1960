"""scatter on GPUs: a thread per element of the updates, in any order.

Updates that may meet in one element are combined by atomic operations, so sums of floats are rounded in the order in
which threads come. Where the indices are unique, or the last one counts, there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExpr, constant, delinearize, dim
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import RegisterValue, load_convert, storage_type, store_convert
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index, here, index_to_i64
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.planners.cpu.scatter import ScatterDimensions
from xjit.emitters.planners.gpu.scatter import overwrites
from xjit.emitters.reductions.reduction_loops import flatten
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.types import I1, I64, LLVMType, int_type
from xjit.llvm.values import Value, const_int
from xjit.ops.reducers import reduction_identity

P = PrimitiveType
THREADS = 256
SCOPE = "device"
RELAXED = "monotonic"

_ATOMIC_ADDS: Mapping[PrimitiveType, str] = {
    P.F32: "fadd",
    P.F64: "fadd",
    **dict.fromkeys((P.S32, P.U32, P.S64, P.U64), "add"),
}
"""Sums that are one instruction."""


def emit_gpu_scatter(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel that combines the updates into the results, which hold the operands already.

    The updates must be independent of each other, see `planners/gpu/scatter.py`.
    """
    context = context.for_one_kernel(f"{view.instruction.name}.update")
    return [_ScatterKernel(context, view).emit()]


class _ScatterKernel:
    """The code of one thread."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        scatter = self._scatter = view.hero
        count = scatter.operand_count // 2
        self._overwrites = overwrites(scatter)
        self._is_alone = scatter.attributes_as(at.ScatterAttributes).unique_indices or self._overwrites
        self._kind = scatter.operand(0).shape.element_type
        self._dimensions = ScatterDimensions.of(scatter)
        self._indices, self._updates = scatter.operand(count), scatter.operands[count + 1 :]
        self._function, leaves, self._results = context.new_gpu_kernel(view, THREADS)
        self._nest = LoopNest(context.module, self._function, context.target)
        self._fused = FusedIrEmitter(self._nest, leaves, context.maps)
        self._combiner = IrEmitterNested()

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, shape = self._nest, self._updates[0].shape
        count = shape.num_elements
        builder = nest.builder
        block = builder.mul(special_register(nest, "ctaid.x"), const_int(I64, THREADS), nsw=True)
        number = builder.add(block, special_register(nest, "tid.x"), nsw=True)
        order = shape.minor_to_major[::-1]

        def element(_: Sequence[Value]) -> Sequence[Value]:
            position = nest.new_variable(count)
            nest.bind(position, number, nest.level.depth)
            parts = delinearize(dim(position), [shape.dimensions[d] for d in order])
            places = dict(zip(order, parts, strict=True))
            self._element(tuple(nest.simplify(places[d]) for d in range(shape.rank)))
            return ()

        nest.where(builder.icmp_signed("<", number, const_int(I64, count)), element)
        finish(nest)
        launch = launch_dimensions(-(-count // THREADS), THREADS)
        return Kernel(self._function, launch.num_blocks, 0.0, "scatter", 2 * shape.byte_size, count, launch=launch)

    def _element(self, index: tuple[AffineExpr, ...]) -> None:
        """Combines one element of the updates, if its window is inside of the operand."""
        nest, dimensions = self._nest, self._dimensions
        starts: dict[int, Value] = {}
        inside = const_int(I1, 1)
        for d, component in enumerate(dimensions.components):
            if component is not None:
                starts[d] = self._start(index, component)
                limit = const_int(I64, dimensions.limits[d])
                inside = nest.builder.and_(inside, nest.builder.icmp_unsigned("<=", starts[d], limit))

        def combine(_: Sequence[Value]) -> Sequence[Value]:
            place: list[AffineExpr] = []
            for d, limit in enumerate(dimensions.limits):
                window, batch = dimensions.windows[d], dimensions.batches[d]
                moving = window if window is not None else batch
                start = bind_index(nest, starts[d], max(2, limit + 1)) if d in starts else constant(0)
                place.append(nest.simplify(start + (index[moving] if moving is not None else 0)))
            self._combine(tuple(place), index)
            return ()

        nest.where(inside, combine)

    def _start(self, index: tuple[AffineExpr, ...], component: int) -> Value:
        of = self._dimensions.index_of
        place = tuple(index[of[k]] if k in of else constant(component) for k in range(self._indices.shape.rank))
        raw, depth = self._fused.element(self._indices, place)
        assert isinstance(raw, Value)
        return index_to_i64(self._nest.levels[depth].builder, raw, self._indices.shape.element_type)

    def _combine(self, place: tuple[AffineExpr, ...], index: tuple[AffineExpr, ...]) -> None:
        nest, memory = self._nest, self._fused.memory
        updates = [self._fused.element(update, index)[0] for update in self._updates]
        if self._is_alone:
            old = [] if self._overwrites else [memory.load(result, place, here(nest)) for result in self._results]
            new = updates if self._overwrites else self._combined([*old, *updates])
            for result, value in zip(self._results, new, strict=True):
                memory.store(result, place, value)
            return
        (result,), (update,) = self._results, updates
        offset = nest.index_value(physical_offset(nest.table, result.shape, place))
        known = reduction_identity(self._scatter.to_apply)
        part = self._kind.component
        if known is not None and known[0] == "add" and part in _ATOMIC_ADDS:
            parts = flatten([update])
            first = nest.builder.mul(offset, const_int(I64, len(parts))) if len(parts) > 1 else offset
            for number, value in enumerate(parts):
                place_of_part = nest.builder.add(first, const_int(I64, number)) if number else first
                address = nest.builder.gep(storage_type(part), result.pointer, place_of_part)
                nest.builder.atomicrmw(_ATOMIC_ADDS[part], address, value, RELAXED, scope=SCOPE)
            return
        kind = storage_type(self._kind)
        self._compare_and_swap(nest.builder, nest.builder.gep(kind, result.pointer, offset), kind, update)

    def _combined(self, arguments: Sequence[RegisterValue]) -> Sequence[RegisterValue]:
        return self._combiner.inline(self._nest.builder, self._scatter.to_apply, arguments)

    def _compare_and_swap(self, builder: IRBuilder, address: Value, kind: LLVMType, update: RegisterValue) -> None:
        """Combines until nobody else has changed the element meanwhile."""
        bits = int_type(kind.bits)

        def attempt(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
            seen = state[0]
            old = load_convert(builder, self._kind, seen if kind.is_int else builder.bitcast(seen, kind))
            (combined,) = self._combined([old, update])
            assert isinstance(combined, Value)
            new = store_convert(builder, self._kind, combined)
            wanted = new if kind.is_int else builder.bitcast(new, bits)
            found, swapped = builder.cmpxchg(address, seen, wanted, RELAXED, RELAXED, scope=SCOPE)
            return builder.xor(swapped, const_int(I1, 1)), [found]

        first = builder.load_atomic(bits, address, kind.bits // 8, RELAXED, scope=SCOPE)
        do_while(builder, [first], attempt)
