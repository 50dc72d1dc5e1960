"""Matrix multiplication: the function that a combination of element types and methods has.

Which multiplication it does is data: the record that `plan_gemm` makes for a shape.
"""

from __future__ import annotations

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.driver import emit_driver
from xjit.emitters.gemm.routine import Routine
from xjit.emitters.gemm.support import support_for
from xjit.llvm import Function, Module, Target

ANY_METHOD = Routine()


def gemm_name(types: GemmTypes, routine: Routine) -> str:
    """The name of the multiplication in its module."""
    return f"xjit_gemm_{types.name}{routine.suffix}"


def emit_gemm(module: Module, target: Target, types: GemmTypes, routine: Routine = ANY_METHOD) -> Function:
    """Defines, once per module, `void (ptr out, ptr lhs, ptr rhs, ptr closure, ptr parameters)`.

    `parameters` points to the record that `plan_gemm` makes for a shape, with the table of kernels behind it if the
    routine is linked to them; `closure` is the epilogue or null. The record may ask for what `routine` has.
    """
    if target is not module.target and target != module.target:
        raise ValueError(f"the module is for {module.target.cpu}, not for {target.cpu}")
    name = gemm_name(types, routine)
    if name in module.functions:
        return module.functions[name]
    support = support_for(module, types, transposes=routine.transposes, linked=routine.linked, whole=routine.whole)
    return emit_driver(module, name, support, routine)
