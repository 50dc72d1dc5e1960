"""Matrix multiplication: the entry points for emitters of dots.

`emit_gemm` defines one function per combination of element types; `emit_gemm_call` calls it for one shape, whose record
it places in the module's constants.
"""

from __future__ import annotations

from xjit.emitters.gemm.driver import emit_driver
from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.plan import plan_gemm
from xjit.emitters.gemm.shapes import GemmShape
from xjit.emitters.gemm.support import support_for
from xjit.llvm import Function, IRBuilder, Module, Target, Value
from xjit.llvm.types import PTR
from xjit.llvm.values import zero


def gemm_name(types: GemmTypes) -> str:
    """The name of the multiplication in its module."""
    return f"xjit_gemm_{types.name}"


def emit_gemm(module: Module, target: Target, types: GemmTypes) -> Function:
    """Defines, once per module, `void (ptr out, ptr lhs, ptr rhs, ptr closure, ptr parameters)`.

    `parameters` points to the record that `plan_gemm` makes for a shape; `closure` is the epilogue or null.
    """
    if target is not module.target and target != module.target:
        raise ValueError(f"the module is for {module.target.cpu}, not for {target.cpu}")
    name = gemm_name(types)
    if name in module.functions:
        return module.functions[name]
    return emit_driver(module, name, support_for(module, types))


def emit_gemm_call(
    builder: IRBuilder,
    types: GemmTypes,
    shape: GemmShape,
    operands: tuple[Value, Value],
    out: Value | None,
    closure: Value | None = None,
    num_threads: int = 1,
) -> None:
    """Calls the multiplication for `shape`; emits it if the module neither has nor declares it yet.

    `out` is where sums are kept, rounded and stored; it is None if an epilogue takes them from scratch memory. With an
    epilogue and `out`, the elements of `out` must be of the compute type.
    """
    module = builder.module
    function = module.declarations.get(gemm_name(types)) or emit_gemm(module, module.target, types)
    if shape.m == 0 or shape.n == 0 or shape.num_batches == 0:
        return
    parameters = plan_gemm(shape, types, module.target, num_threads, may_swap=closure is None, in_scratch=out is None)
    record = module.add_constant_array(parameters.to_array(), hint="gemm_parameters")
    builder.call(function, (out or zero(PTR), *operands, closure or zero(PTR), record))
