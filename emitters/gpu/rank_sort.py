"""sort on GPUs: each thread finds the rank of one element in its line, and puts it there.

An element's rank is how many come before it: each pair is compared once, the later element against the earlier one, so
equal elements keep their order. That takes as many comparisons as the line has pairs, and no exchange between threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, delinearize, dim
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter, select_register
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

THREADS = 256


def emit_gpu_sort(context: GpuKernelContext, view: KernelView) -> Kernel:
    """Emits the kernel of a sort, stable or not, by any comparator that is an order."""
    context = context.for_one_kernel(view.instruction.name)
    sort = view.hero
    operands = sort.operands
    shape = operands[0].shape
    function, leaves, results = context.new_gpu_kernel(view, THREADS)
    nest = LoopNest(context.module, function, context.target)
    fused = FusedIrEmitter(nest, leaves, context.maps)
    builder, count = nest.builder, shape.num_elements
    block = builder.mul(special_register(nest, "ctaid.x"), const_int(I64, THREADS), nsw=True)
    number = builder.add(block, special_register(nest, "tid.x"), nsw=True)
    axis = sort.attributes_as(at.SortAttributes).sort_dimension
    order = shape.minor_to_major[::-1]

    def element(_: Sequence[Value]) -> Sequence[Value]:
        position = nest.new_variable(count)
        nest.bind(position, number, nest.level.depth)
        parts = delinearize(dim(position), [shape.dimensions[d] for d in order])
        places = dict(zip(order, parts, strict=True))
        index = [nest.simplify(places[d]) for d in range(shape.rank)]
        own = [fused.element(operand, tuple(index))[0] for operand in operands]
        place = list(index)
        place[axis] = bind_index(nest, _rank(fused, sort, index, own), max(2, shape.dimensions[axis]))
        for result, value in zip(results, own, strict=True):
            fused.memory.store(result, tuple(nest.simplify(e) for e in place), value)
        return ()

    nest.where(builder.icmp_signed("<", number, const_int(I64, count)), element)
    finish(nest)
    comparisons = count * shape.dimensions[axis]
    launch = launch_dimensions(-(-count // THREADS), THREADS)
    return Kernel(function, launch.num_blocks, 0.0, "rank-sort", 2 * view.byte_size, comparisons, launch=launch)


def _rank(
    fused: FusedIrEmitter, sort: HloInstruction, index: Sequence[AffineExpr], own: Sequence[RegisterValue]
) -> Value:
    """Emits the loop over the line; returns how many of its elements come before this one."""
    nest = fused.nest
    axis = sort.attributes_as(at.SortAttributes).sort_dimension
    place = list(index)
    here = nest.index_value(place[axis])
    other = nest.new_variable(sort.operand(0).shape.dimensions[axis])
    place[axis] = dim(other)

    def step(state: Sequence[Value]) -> Sequence[Value]:
        builder = nest.builder
        position = nest.index_value(dim(other))
        earlier = builder.icmp_signed("<", position, here)
        values = [fused.element(operand, tuple(place))[0] for operand in sort.operands]
        arguments: list[RegisterValue] = []
        for mine, theirs in zip(own, values, strict=True):  # the later element is the first argument
            arguments += [
                select_register(builder, earlier, mine, theirs),
                select_register(builder, earlier, theirs, mine),
            ]
        (wins,) = IrEmitterNested().inline(builder, sort.to_apply, arguments)
        assert isinstance(wins, Value)
        before = builder.xor(wins, earlier)
        another = builder.icmp_signed("!=", position, here)
        counted = builder.zext(builder.and_(before, another), I64)
        return [builder.add(state[0], counted)]

    return nest.scalar_loop(other, step, [const_int(I64, 0)])[0]
