"""scatter on GPUs: a thread per element of the updates, in any order.

Updates that may meet in one element are combined by atomic operations, so sums of floats are rounded in the order in
which threads come. Where the indices are unique, or the last one counts, there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import delinearize, dim
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import RegisterValue, load_convert, storage_type, store_convert
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.scatter.updates import Index, ScatterUpdates
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.nested import IrEmitterNested
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
    return [_ScatterKernel(ScatterUpdates(context, view)).emit()]


class _ScatterKernel:
    """The code of one thread."""

    def __init__(self, updates: ScatterUpdates) -> None:
        scatter = updates.scatter
        self._updates = updates
        self._nest = updates.nest
        self._to_apply = scatter.to_apply
        self._overwrites = overwrites(scatter)
        self._is_alone = scatter.attributes_as(at.ScatterAttributes).unique_indices or self._overwrites
        self._combiner = IrEmitterNested()

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, shape = self._nest, self._updates.shape
        count = shape.num_elements
        number = self._updates.thread()
        order = shape.minor_to_major[::-1]

        def element(_: Sequence[Value]) -> Sequence[Value]:
            position = nest.new_variable(count)
            nest.bind(position, number, nest.level.depth)
            parts = delinearize(dim(position), [shape.dimensions[d] for d in order])
            places = dict(zip(order, parts, strict=True))
            self._element(tuple(nest.simplify(places[d]) for d in range(shape.rank)))
            return ()

        nest.where(nest.builder.icmp_signed("<", number, const_int(I64, count)), element)
        return self._updates.finished(count)

    def _element(self, index: Index) -> None:
        """Combines one element of the updates, if its window is inside of the operand."""
        starts, inside = self._updates.starts(index)

        def combine(_: Sequence[Value]) -> Sequence[Value]:
            self._combine(self._updates.place(starts, index), index)
            return ()

        self._nest.where(inside, combine)

    def _combine(self, place: Index, index: Index) -> None:
        nest = self._nest
        updates = self._updates.updates(index)
        if self._is_alone:
            new = updates if self._overwrites else self._combined([*self._updates.load(place), *updates])
            self._updates.store(place, new)
            return
        (result,), (update,) = self._updates.results, updates
        offset = nest.index_value(physical_offset(nest.table, result.shape, place))
        known = reduction_identity(self._to_apply)
        part = self._updates.kind.component
        if known is not None and known[0] == "add" and part in _ATOMIC_ADDS:
            parts = flatten([update])
            first = nest.builder.mul(offset, const_int(I64, len(parts))) if len(parts) > 1 else offset
            for number, value in enumerate(parts):
                place_of_part = nest.builder.add(first, const_int(I64, number)) if number else first
                address = nest.builder.gep(storage_type(part), result.pointer, place_of_part)
                nest.builder.atomicrmw(_ATOMIC_ADDS[part], address, value, RELAXED, scope=SCOPE)
            return
        kind = storage_type(self._updates.kind)
        self._compare_and_swap(nest.builder, nest.builder.gep(kind, result.pointer, offset), kind, update)

    def _combined(self, arguments: Sequence[RegisterValue]) -> Sequence[RegisterValue]:
        return self._combiner.inline(self._nest.builder, self._to_apply, arguments)

    def _compare_and_swap(self, builder: IRBuilder, address: Value, kind: LLVMType, update: RegisterValue) -> None:
        """Combines until nobody else has changed the element meanwhile."""
        bits = int_type(kind.bits)
        of = self._updates.kind

        def attempt(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
            seen = state[0]
            old = load_convert(builder, of, seen if kind.is_int else builder.bitcast(seen, kind))
            (combined,) = self._combined([old, update])
            assert isinstance(combined, Value)
            new = store_convert(builder, of, combined)
            wanted = new if kind.is_int else builder.bitcast(new, bits)
            found, swapped = builder.cmpxchg(address, seen, wanted, RELAXED, RELAXED, scope=SCOPE)
            return builder.xor(swapped, const_int(I1, 1)), [found]

        first = builder.load_atomic(bits, address, kind.bits // 8, RELAXED, scope=SCOPE)
        do_while(builder, [first], attempt)
