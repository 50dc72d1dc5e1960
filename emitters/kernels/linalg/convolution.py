"""Convolutions as calls of the emitted implicit GEMM: one, or one for each phase of what is spread out."""

from __future__ import annotations

from dataclasses import replace

from xjit.emitters.gemm.blocking.result_space import convolution_result_space
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.convolution.phases import convolution_phases
from xjit.emitters.gemm.library import emit_convolution_call
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.dot import NS_PER_FLOP
from xjit.emitters.kernels.linalg.epilogue import HeroTypes, emit_result, epilogue_cost
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.convolution import ConvolutionWork
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int


def emit_convolution(context: KernelContext, view: KernelView, work: ConvolutionWork) -> list[Kernel]:
    """Emits a convolution with what is computed from it, for each phase: a call of a library function."""
    shape, types = work.shape, work.types
    function, leaves, results = context.new_kernel(view)
    function.is_cold = True
    builder = IRBuilder(function.append_block("entry"))
    hero_types = HeroTypes(types.compute, types.out)
    lhs, rhs = (leaves[view.leaves[number]].pointer for number in work.operands)
    for phase in convolution_phases(shape):
        space = replace(convolution_result_space(phase.shape), start=phase.result_start)
        result = emit_result(context, view, space, hero_types, builder, leaves, results, work.sums)
        image = _behind(builder, lhs, phase.input_start * size_of(types.lhs))
        kernel = _behind(builder, rhs, phase.kernel_start * size_of(types.rhs))
        out = result.out and _behind(builder, result.out, phase.result_start * size_of(types.out))
        emit_convolution_call(builder, types, phase.shape, (image, kernel), out, result.closure)
    builder.ret_void()
    cost = shape.flops * NS_PER_FLOP + epilogue_cost(view)
    return [Kernel(function, 1, cost, "convolution", view.byte_size, shape.flops)]


def _behind(builder: IRBuilder, pointer: Value, num_bytes: int) -> Value:
    return builder.gep(I8, pointer, const_int(I64, num_bytes)) if num_bytes else pointer
