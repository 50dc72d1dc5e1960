"""Matrix multiplication: the entry points for emitters of dots.

`emit_gemm` defines one function per combination of element types (and epilogue); `emit_gemm_call` calls it for one
shape, whose record it places in the module's constants.
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.driver import emit_driver
from xjit.emitters.gemm.microkernel import Epilogue
from xjit.emitters.gemm.plan import GemmTypes, plan_gemm
from xjit.emitters.gemm.shapes import GemmShape
from xjit.emitters.gemm.support import support_for
from xjit.llvm import Function, IRBuilder, Module, Target, Value
from xjit.llvm.types import PTR
from xjit.llvm.values import zero


@dataclass(frozen=True, slots=True)
class GemmConfig:
    """What is fixed in the code: element types, and what is done to sums in registers before they are rounded and
    stored.

    The epilogue gets one vector of a row at a time, in the compute type. `name` tells functions with different
    epilogues apart.
    """

    types: GemmTypes = GemmTypes()
    epilogue: Epilogue | None = None
    name: str = "gemm"

    @property
    def function_name(self) -> str:
        """The name of the function in its module."""
        types = self.types
        return f"xjit_{self.name}_{types.lhs.mangled}_{types.rhs.mangled}_{types.out.mangled}"


def emit_gemm(module: Module, target: Target, config: GemmConfig) -> Function:
    """Defines, once per module, `void (ptr out, ptr lhs, ptr rhs, ptr extra, ptr parameters)`.

    `parameters` points to the record that `plan_gemm` makes for a shape; `extra` goes to the epilogue (else null).
    """
    if target is not module.target and target != module.target:
        raise ValueError(f"the module is for {module.target.cpu}, not for {target.cpu}")
    name = config.function_name
    if name in module.functions:
        return module.functions[name]
    label = config.name if config.epilogue is not None else ""
    return emit_driver(module, name, support_for(module, config.types, label, config.epilogue))


def emit_gemm_call(
    builder: IRBuilder,
    config: GemmConfig,
    shape: GemmShape,
    out: Value,
    lhs: Value,
    rhs: Value,
    extra: Value | None = None,
) -> None:
    """Calls the multiplication for `shape`; emits it if the module neither has nor declares it yet."""
    module = builder.module
    function = module.declarations.get(config.function_name) or emit_gemm(module, module.target, config)
    if shape.m == 0 or shape.n == 0 or shape.num_batches == 0:
        return
    parameters = plan_gemm(shape, config.types, module.target, has_epilogue=config.epilogue is not None)
    record = module.add_constant_array(parameters.to_array(), hint="gemm_parameters")
    builder.call(function, (out, lhs, rhs, extra or zero(PTR), record))
