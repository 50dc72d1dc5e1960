"""The kernels of a sort that compare elements a tile or more apart: in registers, between loads and stores."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr
from xjit.dataclass import dataclass
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import select_register
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.sort.lines import SortLines
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.sort_network import FarPass, SortNetwork
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.llvm.types import I1, I64
from xjit.llvm.values import Value, const_int


@dataclass(slots=True)
class _Element:
    """An element in registers: whether it exists, where, and its values, one per operand."""

    exists: Value
    line: AffineExpr
    place: AffineExpr
    values: list[RegisterValue]


def emit_far_comparisons(context: GpuKernelContext, view: KernelView, network: SortNetwork, far: FarPass) -> Kernel:
    """Emits the kernel of a pass: each thread has the elements that meet in it, one group of a line."""
    lines = SortLines(context, view, network, f".{'mirror' if far.is_first else 'far'}{far.high}")
    nest = lines.nest
    groups = 1 << (network.steps - far.width)
    count = network.lines * groups
    blocks = -(-count // network.threads)
    own = bind_index(nest, nest.builder.add(
        nest.builder.mul(lines.block, const_int(I64, network.threads)), lines.thread), count)  # fmt: skip

    def group(_: Sequence[Value]) -> Sequence[Value]:
        line = nest.simplify(own.floordiv(groups))
        elements = [_loaded(lines, line, place) for place in _places(own.mod(groups), far)]
        for bit in reversed(range(far.width)):
            mask = len(elements) - 1 if far.is_first and bit == far.width - 1 else 1 << bit
            for number, element in enumerate(elements):
                if not number >> bit & 1:
                    _order(lines, element, elements[number ^ mask])
        for element in elements:
            _store(lines, element)
        return ()

    nest.where(nest.builder.icmp_signed("<", nest.index_value(own), const_int(I64, count)), group)
    return lines.finished(blocks, far.width)


def _places(group: AffineExpr, far: FarPass) -> list[AffineExpr]:
    """The places of the elements that meet in a pass, in ascending order.

    They differ in the bits `low` .. `high`; in a step's first pass, the upper half are the mirror images of the lower.
    """
    below, whole = 1 << far.low, 1 << (far.high + 1)
    start, low = group.floordiv(below) * whole, group.mod(below)
    count = 1 << far.width
    places = [start + low + number * below for number in range(count)]
    if far.is_first:
        mirrored = [start + (whole - 1 - number * below) - low for number in range(count // 2)]
        places[count // 2 :] = mirrored[::-1]
    return places


def _loaded(lines: SortLines, line: AffineExpr, place: AffineExpr) -> _Element:
    nest = lines.nest
    place = nest.simplify(place)
    exists = nest.builder.icmp_signed("<", nest.index_value(place), const_int(I64, lines.network.size))
    like = lines.like
    parts = nest.where(exists, lambda _: flatten(lines.load(line, place, from_operands=False)), flatten(like))
    return _Element(exists, line, place, unflatten(parts, like))


def _order(lines: SortLines, first: _Element, second: _Element) -> None:
    """Swaps two elements if the second is to come first; one that does not exist never is."""
    builder = lines.nest.builder
    is_before = lines.is_before(builder, second.values, first.values)
    swap = builder.select(second.exists, is_before, const_int(I1, 0))
    pairs = list(zip(first.values, second.values, strict=True))
    first.values = [select_register(builder, swap, b, a) for a, b in pairs]
    second.values = [select_register(builder, swap, a, b) for a, b in pairs]


def _store(lines: SortLines, element: _Element) -> None:
    def store(_: Sequence[Value]) -> Sequence[Value]:
        lines.store(element.line, element.place, element.values)
        return ()

    lines.nest.where(element.exists, store)
