"""Dots, with what is computed from them, as calls of the emitted GEMM."""

from __future__ import annotations

from xjit.emitters.gemm.library import emit_gemm_call
from xjit.emitters.gemm.result_space import gemm_result_space
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.epilogue import HeroTypes, emit_result, epilogue_cost
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.dot import GemmWork
from xjit.llvm.builder import IRBuilder

NS_PER_FLOP = 0.012


def emit_dot(context: KernelContext, view: KernelView, work: GemmWork) -> list[Kernel]:
    """Emits a dot with conversions of its operands and what is computed from it: one GEMM call."""
    shape, types = work.shape, work.types
    function, leaves, results = context.new_kernel(view)
    function.is_cold = True
    builder = IRBuilder(function.append_block("entry"))
    hero_types = HeroTypes(types.compute, types.out)
    result = emit_result(context, view, gemm_result_space(shape), hero_types, builder, leaves, results, work.sums)
    lhs, rhs = (leaves[view.leaves[number]].pointer for number in work.operands)
    emit_gemm_call(builder, types, shape, (lhs, rhs), result.out, result.closure)
    builder.ret_void()
    cost = shape.flops * NS_PER_FLOP + epilogue_cost(view)
    return [Kernel(function, 1, cost, "gemm", view.byte_size, shape.flops)]
