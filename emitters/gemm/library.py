"""The code of multiplications and convolutions as LLVM modules of their own: one for types and methods.

No shape and no epilogue is fixed in them, so programs share them: a module that calls them declares them and lists the
other module under `Module.libraries`. The runtime compiles each once, and keeps the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from xjit.emitters.gemm.block import GEMM_PARAMS
from xjit.emitters.gemm.blocking.convolution_dimensions import as_gemm
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, convolution_spans
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import GemmShape, operand_spans
from xjit.emitters.gemm.blocking.units import Unit
from xjit.emitters.gemm.convolution.function import CONVOLUTION_PARAMS, convolution_name, emit_convolution
from xjit.emitters.gemm.gemm import emit_gemm, gemm_name
from xjit.emitters.gemm.microkernels.kernels import (
    KernelSize,
    convolution_kernels,
    emit_kernel,
    gemm_kernels,
    kernel_name,
    kernel_types,
    table_entries,
)
from xjit.emitters.gemm.microkernels.microkernel import KERNEL_PARAMS
from xjit.emitters.gemm.plane_range import FIT_PARAMS, emit_planes_fit, greatest_exponents, planes_fit_name
from xjit.emitters.gemm.routine import ConvolutionRoutine, Routine, convolution_routine_for, more_able, routine_for
from xjit.llvm import IRBuilder, Module, Target, Value
from xjit.llvm.library import Library
from xjit.llvm.module import Declaration
from xjit.llvm.types import I1, I64, PTR, VOID, array
from xjit.llvm.values import const_int, zero


def emit_gemm_call(
    builder: IRBuilder,
    types: GemmTypes,
    shape: GemmShape,
    operands: tuple[Value, Value],
    out: Value | None,
    closure: Value | None = None,
) -> None:
    """Calls the multiplication for `shape`.

    `out` is where sums are kept, rounded and stored; it is None if an epilogue takes them from scratch memory. With an
    epilogue and `out`, the elements of `out` must be of the compute type.
    """
    module = builder.module
    if shape.m == 0 or shape.n == 0 or shape.num_batches == 0:
        return

    def prepared(types: GemmTypes) -> tuple[Declaration, Value]:
        target, may_swap, in_scratch = module.target, closure is None, out is None
        parameters = plan_gemm(shape, types, target, may_swap=may_swap, in_scratch=in_scratch)
        routine = routine_for(parameters, types, target, epilogue=closure is not None)
        kernels = gemm_kernels(parameters, register_tile(target, types), types)
        return link_gemm(module, types, routine), add_record(module, types, parameters.to_array(), kernels)

    counts = operand_spans(shape)
    _call_prepared(builder, prepared, types, (out or zero(PTR), *operands, closure or zero(PTR)), (*counts, shape.k))


def emit_convolution_call(
    builder: IRBuilder,
    types: GemmTypes,
    shape: ConvolutionShape,
    operands: tuple[Value, Value],
    out: Value | None,
    closure: Value | None = None,
) -> None:
    """Calls the convolution for `shape`, or a multiplication where that is the same. Raises ValueError for too many
    dimensions. Compare `emit_gemm_call`.
    """
    gemm = as_gemm(shape)
    if gemm is not None:
        emit_gemm_call(builder, types, gemm, operands, out, closure)
        return
    module = builder.module

    def prepared(types: GemmTypes) -> tuple[Declaration, Value]:
        parameters = plan_convolution(shape, types, module.target, in_scratch=out is None)
        function = link_convolution(module, types, convolution_routine_for(parameters, types, module.target))
        kernels = convolution_kernels(parameters, register_tile(module.target, types), types)
        return function, add_record(module, types, parameters.to_array(), kernels)

    counts = convolution_spans(shape)
    args = out or zero(PTR), *operands, closure or zero(PTR)
    _call_prepared(builder, prepared, types, args, (*counts, shape.terms))


def _call_prepared(
    builder: IRBuilder,
    prepared: Callable[[GemmTypes], tuple[Declaration, Value]],
    types: GemmTypes,
    args: tuple[Value, ...],
    counts: tuple[int, int, int],
) -> None:
    """Calls what `prepared` returns for the types, a function and its record. Of planes: if the operands fit, else what
    it returns for multiply-adds.

    `args`: the result, the operands, the closure; `counts`: elements from the first to the last of each operand, terms
    of a sum.
    """
    function, record = prepared(types)
    if types.unit is not Unit.BF16_PLANES:
        builder.call(function, (*args, record))
        return
    exact, exact_record = prepared(replace(types, unit=Unit.FMA))
    _, lhs, rhs, _ = args
    lhs_count, rhs_count, most = (const_int(I64, n) for n in (*counts[:2], greatest_exponents(counts[2])))
    fits = builder.call(link_planes_fit(builder.module, types), (lhs, lhs_count, rhs, rhs_count, most))
    chosen = builder.select(fits, function.value, exact.value)
    builder.call_pointer(chosen, VOID, (*args, builder.select(fits, record, exact_record)))


def link_gemm(module: Module, types: GemmTypes, routine: Routine) -> Declaration:
    """Declares a multiplication in `module`, and lists what defines it.

    One that needs no copies, or no batches, or is whole, is done by one with them if that is there already: less is
    compiled.
    """
    for able in more_able(routine):
        if gemm_name(types, able) in module.libraries:
            routine = able
            break
    name = gemm_name(types, routine)
    module.libraries.setdefault(name, Library.of(name, gemm_module, types, routine, module.target))
    return module.declare(name, VOID, [type for type, _ in GEMM_PARAMS])


def link_convolution(module: Module, types: GemmTypes, routine: ConvolutionRoutine) -> Declaration:
    """The same for a convolution."""
    general = replace(routine, whole=False)
    routine = general if convolution_name(types, general) in module.libraries else routine
    name = convolution_name(types, routine)
    module.libraries.setdefault(name, Library.of(name, convolution_module, types, routine, module.target))
    return module.declare(name, VOID, [type for type, _ in CONVOLUTION_PARAMS])


def link_planes_fit(module: Module, types: GemmTypes) -> Declaration:
    """The same for the look at the operands of a product of planes."""
    name = planes_fit_name(types)
    module.libraries.setdefault(name, Library.of(name, planes_fit_module, types, module.target))
    return module.declare(name, I1, [type for type, _ in FIT_PARAMS])


def link_kernel(module: Module, types: GemmTypes, size: KernelSize) -> Declaration:
    """The same for a kernel that multiplications and convolutions call."""
    types = kernel_types(types)
    name = kernel_name(types, size)
    module.libraries.setdefault(name, Library.of(name, kernel_module, types, size, module.target))
    return module.declare(name, VOID, [type for type, _ in KERNEL_PARAMS])


def add_record(module: Module, types: GemmTypes, numbers: np.ndarray, kernels: Sequence[KernelSize]) -> Value:
    """A constant of some numbers, with the table of kernels behind them if there are any; links the kernels."""
    if not kernels:
        return module.add_constant_array(numbers, hint="parameters")
    addresses = {size: link_kernel(module, types, size).value for size in kernels}
    table = table_entries(register_tile(module.target, types), addresses)
    entries = (*map(str, numbers), *(f"ptrtoint (ptr {address} to i64)" for address in table))
    type = array(I64, len(entries))
    return module.add_constant(type, Value(type, f"[{', '.join(f'i64 {e}' for e in entries)}]"), 64, "parameters")


def kernel_module(types: GemmTypes, size: KernelSize, target: Target) -> Module:
    """The module with that."""
    module = Module(f"{kernel_name(types, size)}_library", target)
    emit_kernel(module, types, size)
    return module


def planes_fit_module(types: GemmTypes, target: Target) -> Module:
    """The module with that."""
    module = Module(f"{planes_fit_name(types)}_library", target)
    emit_planes_fit(module, types)
    return module


def gemm_module(types: GemmTypes, routine: Routine, target: Target) -> Module:
    """The module with a multiplication."""
    module = Module(f"{gemm_name(types, routine)}_library", target)
    emit_gemm(module, target, types, routine)
    return module


def convolution_module(types: GemmTypes, routine: ConvolutionRoutine, target: Target) -> Module:
    """The module with a convolution."""
    module = Module(f"{convolution_name(types, routine)}_library", target)
    emit_convolution(module, target, types, routine)
    return module
