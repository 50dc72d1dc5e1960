"""Dots, with what is computed from them: small ones as code of the program, others as calls of the emitted GEMM."""

from __future__ import annotations

from xjit.emitters.gemm.blocking.result_space import gemm_result_space
from xjit.emitters.gemm.direct import DirectEmitter
from xjit.emitters.gemm.library import emit_gemm_call
from xjit.emitters.kernels.kernel import Kernel, KernelContext, range_arguments
from xjit.emitters.kernels.linalg.epilogue import HeroTypes, emit_result, epilogue_cost
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.dot import GemmWork
from xjit.llvm.structured_builder import StructuredBuilder

NS_PER_FLOP = 0.012


def emit_dot(context: KernelContext, view: KernelView, work: GemmWork) -> list[Kernel]:
    """Emits a dot with conversions of its operands and what is computed from it, in one function."""
    shape, types, direct = work.shape, work.types, work.direct(context.target)
    function, leaves, results = context.new_kernel(view)
    function.is_cold = direct is None
    builder = StructuredBuilder(function.append_block("entry"))
    hero_types = HeroTypes(types.compute, types.out)
    result = emit_result(context, view, gemm_result_space(shape), hero_types, builder, leaves, results, work.sums)
    lhs, rhs = (leaves[view.leaves[number]].pointer for number in work.operands)
    if direct is None:
        emit_gemm_call(builder, types, shape, (lhs, rhs), result.out, result.closure)
    else:
        DirectEmitter(builder, direct, (lhs, rhs), result.out, result.closure).emit(*range_arguments(function))
    builder.ret_void()
    cost = shape.flops * NS_PER_FLOP + epilogue_cost(view)
    return [Kernel(function, 1 if direct is None else direct.units, cost, "gemm", view.byte_size, shape.flops)]
