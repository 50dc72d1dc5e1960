"""A module of scalars as a device function: code of one thread that kernels of others call, by CUDA's C conventions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.emitters.elemental import ComplexValue
from xjit.emitters.nested import IrEmitterNested
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import register_type
from xjit.llvm.function import identifier
from xjit.llvm.module import Module
from xjit.llvm.target import Target

C_TYPES: Mapping[PrimitiveType, str] = MappingProxyType(
    {
        PrimitiveType.F32: "float32",
        PrimitiveType.F64: "float64",
        PrimitiveType.S32: "int32",
        PrimitiveType.S64: "int64",
        PrimitiveType.U32: "uint32",
        PrimitiveType.U64: "uint64",
    }
)
"""The types that such a function may take and return, by numba's names: those that PTX passes as they are."""


def emit_device_function(module: HloModule, name: str, target: Target) -> str:
    """Returns a module of LLVM IR that defines `name`: scalars in, one scalar out.

    Errors: InvalidArgument for a name that PTX does not take; Unsupported names what is no scalar of `C_TYPES`, or the
    instruction that is not elementwise.
    """
    if not name or identifier(name) != name:
        raise InvalidArgument(f"'{name}' cannot be the name of a device function: letters, digits and _ only")
    entry = module.entry_computation
    for instruction in (*entry.parameter_instructions, entry.root_instruction):
        _check(instruction)
    kinds = [p.shape.element_type for p in entry.parameter_instructions]
    out = Module(f"{name}_module", target)
    params = [(register_type(kind), f"p{n}") for n, kind in enumerate(kinds)]
    function = out.add_function(name, register_type(entry.root_instruction.shape.element_type), params)
    builder = IRBuilder(function.append_block("entry"))
    (result,) = IrEmitterNested().inline(builder, entry, function.args)
    assert not isinstance(result, ComplexValue), "no complex number is among C_TYPES"
    builder.ret(result)
    return out.to_text()


def _check(instruction: HloInstruction) -> None:
    shape = instruction.shape
    if not shape.is_array or shape.rank or shape.element_type not in C_TYPES:
        known = ", ".join(kind.text for kind in C_TYPES)
        raise Unsupported(
            f"'{instruction.name}' is {shape.to_string()}: device functions take and return scalars of {known}",
            instruction.span,
        )
