"""Convolutions as calls of the emitted implicit GEMM."""

from __future__ import annotations

from xjit.emitters.gemm.blocking.result_space import convolution_result_space
from xjit.emitters.gemm.library import emit_convolution_call
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.dot import NS_PER_FLOP
from xjit.emitters.kernels.linalg.epilogue import HeroTypes, emit_result, epilogue_cost
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.convolution import ConvolutionWork
from xjit.llvm.builder import IRBuilder


def emit_convolution(context: KernelContext, view: KernelView, work: ConvolutionWork) -> list[Kernel]:
    """Emits a convolution with what is computed from it: one call of a library function."""
    shape, types = work.shape, work.types
    function, leaves, results = context.new_kernel(view)
    function.is_cold = True
    builder = IRBuilder(function.append_block("entry"))
    hero_types = HeroTypes(types.compute, types.out)
    result = emit_result(
        context, view, convolution_result_space(shape), hero_types, builder, leaves, results, work.sums
    )
    lhs, rhs = (leaves[view.leaves[number]].pointer for number in work.operands)
    emit_convolution_call(builder, types, shape, (lhs, rhs), result.out, result.closure)
    builder.ret_void()
    cost = shape.flops * NS_PER_FLOP + epilogue_cost(view)
    return [Kernel(function, 1, cost, "convolution", view.byte_size, shape.flops)]
