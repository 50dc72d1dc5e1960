"""The blocked products of a combination of types, as an LLVM module of their own, which programs share."""

from __future__ import annotations

from xjit.emitters.attention.block import UNIT_PARAMS, emit_unit, scratch_sizes
from xjit.emitters.attention.joint_block import JOINT_PARAMS, emit_joint_unit
from xjit.emitters.attention.joint_block import scratch_sizes as joint_scratch_sizes
from xjit.emitters.attention.joint_shapes import JointTypes
from xjit.emitters.attention.shapes import ScoreTypes
from xjit.emitters.attention.whole_columns import emit_whole_columns_unit
from xjit.llvm import Declaration, Module, Target
from xjit.llvm.library import Library
from xjit.llvm.types import VOID


def link_score_library(module: Module, types: ScoreTypes | JointTypes) -> Declaration:
    """Declares the function of those types in `module`, with `UNIT_PARAMS`, or `JOINT_PARAMS` for several products."""
    name = f"xjit_unit_{types.mangled}"
    if name not in module.libraries:
        module.libraries[name] = Library.of(name, score_module, types, module.target)
        params = JOINT_PARAMS if isinstance(types, JointTypes) else UNIT_PARAMS
        return module.declare(name, VOID, [type for type, _ in params])
    return module.declarations[name]


def stack_bytes(types: ScoreTypes | JointTypes, target: Target) -> int:
    """Returns the memory that a call of the function of those types takes on the stack."""
    sizes = joint_scratch_sizes(types, target) if isinstance(types, JointTypes) else scratch_sizes(types, target)
    return sum(sizes.values())


def score_module(types: ScoreTypes | JointTypes, target: Target) -> Module:
    """The library's module."""
    name = f"xjit_unit_{types.mangled}"
    module = Module(f"{name}_library", target)
    if isinstance(types, JointTypes):
        emit = emit_whole_columns_unit if types.levels else emit_joint_unit
        exported = emit(module, name, types)
    else:
        exported = emit_unit(module, name, types)
    for function in module.functions.values():
        function.linkage = "" if function is exported else "internal"
    return module
